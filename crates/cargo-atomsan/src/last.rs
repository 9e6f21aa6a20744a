//! The last run: each run leaves its documents behind, so that `report` can show them again in
//! another way without running the program.

use crate::render;
use anyhow::Context as _;
use atomsan_report::Document;
use std::path::{Path, PathBuf};

/// Its file's name.
pub(crate) const NAME: &str = "last-run.json";

/// Where a run that belongs to no workspace is kept: one for each user.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    Ok(crate::runtime::cache()?.join(NAME))
}

/// Keeps documents, with the lines of source that they are about: those may be edited soon. The
/// file comes into place as a whole: others may be reading or writing it.
pub(crate) fn save(path: &Path, documents: &[Document]) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        for document in documents {
            let mut document = document.clone();
            document.keep_sources(&render::sources(&[]));
            std::io::Write::write_all(&mut file, document.to_line().as_bytes())?;
            std::io::Write::write_all(&mut file, b"\n")?;
        }
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot keep the result in {}", path.display()))
}
