//! The page in a real browser: headless Chromium, driven by a small script over its DevTools
//! protocol (`browser.mjs`, plain Node). Skipped where there is no Chromium or Node, but not in CI.
//!
//! The script leaves pictures in `target/atomsan-report/`, which CI keeps.

use crate::{document, root, sources};
use atomsan_report::html;
use std::path::{Path, PathBuf};
use std::process::Command;

fn found(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let files = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

#[test]
fn the_page_works() {
    let browser = found(&["chromium", "chromium-browser", "google-chrome"]);
    let (Some(browser), Some(node)) = (browser, found(&["node"])) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must have Chromium and Node"
        );
        eprintln!("skipped: no Chromium or no Node here");
        return;
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let folder = target.join("atomsan-report");
    std::fs::create_dir_all(&folder).unwrap();
    let programs = ["withdraw-wrong", "map-wrong", "invariant-wrong"].map(document);
    let some = folder.join("report.html");
    std::fs::write(&some, html::render(&programs, &sources())).unwrap();
    let many = folder.join("thousand.html");
    std::fs::write(&many, html::render(&[thousand()], &sources())).unwrap();
    let wide = folder.join("wide.html");
    std::fs::write(&wide, html::render(&[long()], &sources())).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/browser.mjs");
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(node)
        .arg(script)
        .arg(browser)
        .args([&some, &many, &wide, &folder])
        .arg(profile.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.trim_end().ends_with("all checks passed"), "{said}");
}

/// A finding with names that are longer than any page is wide.
fn long() -> atomsan_report::Document {
    let mut document = document("withdraw-wrong");
    let long = format!("an_extraordinarily_{}_name", "W".repeat(300));
    let finding = &mut document.findings[0];
    finding.culprit.function = Some(format!("{long}<{long}>"));
    finding.notes.push(format!("a note about `{long}`"));
    for transaction in &mut finding.transactions {
        transaction.thread = format!("{long} {}", transaction.thread);
        transaction.region = Some(long.clone());
    }
    for step in &mut finding.witness {
        step.thread = format!("{long} {}", step.thread);
        step.target = Some(format!("{long} of the 48 bytes allocated at {long}:7"));
        step.place.function.clone_from(&finding.culprit.function);
        step.stack.push(step.place.clone());
    }
    document.file = long;
    document
}

/// A thousand findings, with names that try to break out.
fn thousand() -> atomsan_report::Document {
    let mut document = document("withdraw-wrong");
    let first = document.findings.remove(0);
    document.findings = (0..1000)
        .map(|number| {
            let mut finding = first.clone();
            finding.also.clear();
            let name = match number {
                7 => "</script><img src=x onerror=alert(1)>".to_owned(),
                _ => format!("module_{}::function_{number}", number / 10),
            };
            finding.culprit.function = Some(name);
            finding
        })
        .collect();
    document
}
