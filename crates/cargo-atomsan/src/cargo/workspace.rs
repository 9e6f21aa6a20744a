//! Where the user works, and whose sources are where.

use super::options::Options;
use crate::exit::UsageError;
use crate::recorded::Whose;
use crate::runtime::TARGET;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package that is built.
struct Package {
    name: String,
    directory: PathBuf,
    member: bool,
    /// Whether a member names it as a dependency.
    direct: bool,
}

/// The workspace.
pub(super) struct Workspace {
    pub(super) root: PathBuf,
    /// Where the instrumented build is.
    pub(super) target: PathBuf,
    packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo.
    pub(super) fn find(cargo: &OsString, options: &Options) -> anyhow::Result<Workspace> {
        let output = Command::new(cargo)
            .args([
                "metadata",
                "--format-version=1",
                "--filter-platform",
                TARGET,
            ])
            .args(&options.metadata)
            .output()
            .with_context(|| format!("cannot run {}", cargo.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}", said.trim().trim_start_matches("error: "));
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("cannot understand `cargo metadata`")?;
        Workspace::read(&metadata).context("cannot understand `cargo metadata`")
    }

    fn read(metadata: &Value) -> Option<Workspace> {
        let members: HashSet<&str> = array(&metadata["workspace_members"])
            .filter_map(Value::as_str)
            .collect();
        let direct: HashSet<&str> = array(&metadata["resolve"]["nodes"])
            .filter(|node| node["id"].as_str().is_some_and(|id| members.contains(id)))
            .flat_map(|node| array(&node["dependencies"]))
            .filter_map(Value::as_str)
            .collect();
        let packages = array(&metadata["packages"])
            .filter_map(|package| {
                let id = package["id"].as_str()?;
                let manifest = Path::new(package["manifest_path"].as_str()?);
                Some(Package {
                    name: package["name"].as_str()?.to_owned(),
                    directory: manifest.parent()?.to_owned(),
                    member: members.contains(id),
                    direct: direct.contains(id),
                })
            })
            .collect();
        let target = PathBuf::from(metadata["target_directory"].as_str()?);
        Some(Workspace {
            root: metadata["workspace_root"].as_str()?.into(),
            // It is ours already if the environment is the one of `show-env`.
            target: if target.ends_with(OWN) {
                target
            } else {
                target.join(OWN)
            },
            packages,
        })
    }

    /// Whose functions are regions, as directories.
    pub(super) fn sources(&self, regions: &[Whose]) -> anyhow::Result<atomsan_recording::Options> {
        if regions.contains(&Whose::All) {
            return Ok(atomsan_recording::Options::everything());
        }
        for whose in regions {
            if let Whose::Named(name) = whose
                && !self.packages.iter().any(|package| package.is(name))
            {
                return Err(UsageError(self.no_such_crate(name)).into());
            }
        }
        let wanted = |package: &Package| {
            package.member
                || regions.iter().any(|whose| match whose {
                    Whose::Direct => package.direct,
                    Whose::Named(name) => package.is(name),
                    _ => false,
                })
        };
        let (roots, others): (Vec<_>, Vec<_>) = self.packages.iter().partition(|one| wanted(one));
        let directories = |packages: Vec<&Package>| -> Vec<PathBuf> {
            let directories = packages.into_iter().map(|package| &package.directory);
            directories.flat_map(|path| under_all_names(path)).collect()
        };
        let (mut roots, mut others) = (directories(roots), directories(others));
        // What tests and examples include may lie beside the members.
        roots.extend(under_all_names(&self.root));
        // What build scripts have written.
        others.extend(under_all_names(&self.target));
        Ok(atomsan_recording::Options {
            roots,
            others,
            ..Default::default()
        })
    }

    fn no_such_crate(&self, name: &str) -> String {
        let near = |package: &&Package| {
            package.name.contains(name) || name.contains(package.name.as_str())
        };
        let hint = match self.packages.iter().find(near) {
            Some(package) => format!("; there is `{}`", package.name),
            None => String::new(),
        };
        format!(
            "--regions: the build has no crate `{name}`{hint}; expected workspace, direct, all or \
             names of crates"
        )
    }
}

/// Below the target directory: builds with and without instrumentation do not get in each
/// other's way.
const OWN: &str = "atomsan";

impl Package {
    /// In either way of writing.
    fn is(&self, name: &str) -> bool {
        self.name.replace('-', "_") == name.replace('-', "_")
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A directory as cargo calls it, and as the system does, which is how the compiler may have
/// found it.
fn under_all_names(path: &Path) -> Vec<PathBuf> {
    let mut names = vec![path.to_owned()];
    names.extend(path.canonicalize().ok().filter(|other| other != path));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        let package = |name: &str, directory: &str| {
            let manifest = format!("{directory}/Cargo.toml");
            serde_json::json!({"id": name, "name": name, "manifest_path": manifest})
        };
        Workspace::read(&serde_json::json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "workspace_members": ["app"],
            "packages": [
                package("app", "/w"), package("near-by", "/w/vendor/near-by"), package("far", "/r/far"),
            ],
            "resolve": {"nodes": [
                {"id": "app", "dependencies": ["near-by"]},
                {"id": "near-by", "dependencies": ["far"]},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn whose_is_what() {
        let roots = |regions: &[Whose]| workspace().sources(regions).unwrap().roots;
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(roots(&[Whose::Workspace]), paths(&["/w", "/w"]));
        let others = workspace().sources(&[Whose::Workspace]).unwrap().others;
        assert_eq!(
            others,
            paths(&["/w/vendor/near-by", "/r/far", "/w/target/atomsan"])
        );
        let direct = paths(&["/w", "/w/vendor/near-by", "/w"]);
        assert_eq!(roots(&[Whose::Direct]), direct);
        assert_eq!(roots(&[Whose::Named("near_by".into())]), direct);
        assert_eq!(
            roots(&[Whose::Named("far".into())]),
            paths(&["/w", "/r/far", "/w"])
        );
        assert_eq!(roots(&[Whose::All]), paths(&["/"]));
    }

    #[test]
    fn a_crate_that_is_not_there() {
        let error = workspace()
            .sources(&[Whose::Named("near".into())])
            .unwrap_err();
        assert!(error.to_string().contains("there is `near-by`"), "{error}");
    }
}
