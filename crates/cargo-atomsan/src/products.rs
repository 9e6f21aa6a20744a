//! What engines infer besides findings: Silver's yields and DoubleChecker's first run.

use crate::engines::{Flags, read_yields};
use crate::output::Output;
use anyhow::Context as _;
use atomsan_engines::checker::Checker;
use atomsan_engines::cooperability::yields::{Needed, Place, Yields};
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_report::Document;
use std::path::Path;

/// The products of all traces of one command.
#[derive(Debug, Default)]
pub(crate) struct Products {
    yields: Option<Yields>,
    first_run: Option<StaticInfo>,
}

impl Products {
    /// Adds those of one trace. A product that was just made can be read again.
    pub(crate) fn add(&mut self, checker: &Checker) -> anyhow::Result<()> {
        for run in checker.runs() {
            if let Some(text) = run.engine.product(checker.names()) {
                self.add_text(run.engine.name(), &text)?;
            }
        }
        Ok(())
    }

    /// Those of one trace.
    pub(crate) fn of(checker: &Checker) -> anyhow::Result<Products> {
        let mut products = Products::default();
        products.add(checker)?;
        Ok(products)
    }

    /// What a second run should look at.
    pub(crate) fn first_run(self) -> StaticInfo {
        self.first_run.unwrap_or_default()
    }

    /// Adds those of a document.
    pub(crate) fn add_document(&mut self, document: &Document) -> anyhow::Result<()> {
        for engine in &document.engines {
            if let Some(text) = &engine.product {
                self.add_text(&engine.name, text)?;
            }
        }
        Ok(())
    }

    fn add_text(&mut self, engine: &str, text: &str) -> anyhow::Result<()> {
        let file = Path::new(engine);
        if engine == "silver" {
            let yields = Yields::parse(file, text)?;
            self.yields.get_or_insert_default().merge(&yields);
        } else {
            let info = StaticInfo::parse(file, text)?;
            self.first_run.get_or_insert_default().unite(info);
        }
        Ok(())
    }

    /// The places of the yields, for a person.
    pub(crate) fn places(&self) -> Vec<String> {
        let places = self.yields.iter().flat_map(|yields| yields.places.keys());
        places.map(named).collect()
    }

    /// Writes them where the flags say, and the yields for a person unless `quiet`.
    pub(crate) fn write(&self, flags: &Flags, out: &mut Output, quiet: bool) -> anyhow::Result<()> {
        if let (Some(path), Some(info)) = (&flags.first_run, &self.first_run) {
            write_file(path, &info.to_string())?;
        }
        let Some(yields) = &self.yields else {
            return Ok(());
        };
        if let Some(path) = &flags.write_yields {
            write_file(path, &yields.to_string())?;
        }
        if quiet {
            return Ok(());
        }
        let before = read_yields(&flags.against)?;
        let comparison = yields.against(&before);
        let count = yields.places.len();
        let mut text = match count {
            0 => "no yields needed".to_owned(),
            1 => "1 yield inferred".to_owned(),
            _ => format!("{count} yields inferred"),
        };
        if flags.against.is_empty() {
            text.push('\n');
        } else {
            text.push_str(&format!(
                ": {} new, {} again; {} inferred before and not now\n",
                comparison.new.len(),
                comparison.again.len(),
                comparison.gone.len()
            ));
        }
        for (place, needed) in &comparison.new {
            text.push_str(&describe(place, needed));
        }
        out.write(|out| out.write_all(text.as_bytes()))
    }
}

/// What two runs of an engine inferred, united; nothing if one of them cannot be read.
pub(crate) fn unite(engine: &str, one: &str, other: &str) -> Option<String> {
    let file = Path::new(engine);
    if engine == "silver" {
        let mut yields = Yields::parse(file, one).ok()?;
        yields.merge(&Yields::parse(file, other).ok()?);
        return Some(yields.to_string());
    }
    let mut info = StaticInfo::parse(file, one).ok()?;
    info.unite(StaticInfo::parse(file, other).ok()?);
    Some(info.to_string())
}

fn describe(place: &Place, needed: &Needed) -> String {
    let mut text = format!(
        "  yield at {}, needed {}\n",
        named(place),
        times(needed.count)
    );
    for (conflict, count) in &needed.conflicts {
        text.push_str(&format!(
            "    against {}, {}\n",
            named(conflict),
            times(*count)
        ));
    }
    for region in &needed.regions {
        text.push_str(&format!("    so `{region}` is not atomic\n"));
    }
    text
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// A place as it is seen from here.
fn named(place: &Place) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let file = Path::new(&*place.file).strip_prefix(&here).ok();
    let file = file.and_then(Path::to_str).unwrap_or(&place.file);
    let at = match (file, place.line) {
        ("", 0) => "an unknown place".to_owned(),
        ("", line) => format!("location {line}"),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    };
    match &*place.function {
        "" => at,
        function => format!("{at} in {function}"),
    }
}

pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write to {}", path.display()))
}
