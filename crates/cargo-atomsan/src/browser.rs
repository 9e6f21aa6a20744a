//! Showing a file in the user's browser.

use crate::output;
use std::path::Path;
use std::process::{Command, Stdio};

/// Opens a file with `$BROWSER` or `xdg-open`, or says where it is.
pub(crate) fn open(path: &Path) {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let wanted = std::env::var("BROWSER").unwrap_or_default();
    let browsers = wanted.split(':').chain(["xdg-open"]);
    for browser in browsers.filter(|browser| !browser.trim().is_empty()) {
        // A browser may be given with arguments, of which `%s` is the page.
        let mut words = browser.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        let arguments: Vec<&str> = words.collect();
        for argument in &arguments {
            command.arg(argument.replace("%s", &path.to_string_lossy()));
        }
        if !arguments.iter().any(|argument| argument.contains("%s")) {
            command.arg(&path);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Most of them come back at once and leave the browser running.
        if command.status().is_ok_and(|status| status.success()) {
            return;
        }
    }
    output::warn(&format!(
        "there is no browser to open it with (set BROWSER); the report is {}",
        path.display()
    ));
}
