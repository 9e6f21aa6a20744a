//! Which test a process was, where nextest has started it: one process for each test.

use crate::format::header;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// A test, as nextest names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestName {
    /// The binary it is in, `package::target`.
    pub binary: String,
    /// Its path in there.
    pub test: String,
}

impl TestName {
    /// The test that a process was that recorded, or is recording, into a file; none if it was started by anybody
    /// but nextest.
    pub fn of(recording: &Path) -> Option<TestName> {
        let mut page = [0; header::TEST_SIZE];
        let file = File::open(recording).ok()?;
        file.read_exact_at(&mut page, header::TEST as u64).ok()?;
        TestName::parse(&page)
    }

    fn parse(page: &[u8]) -> Option<TestName> {
        let mut names = page.split(|&byte| byte == 0);
        let mut name = || {
            let name = names.next().filter(|name| !name.is_empty())?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        Some(TestName {
            binary: name()?,
            test: name()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_two_names() {
        let name = TestName::parse(b"bank::it\0withdraw\0\0\0").unwrap();
        assert_eq!((&*name.binary, &*name.test), ("bank::it", "withdraw"));
        assert_eq!(TestName::parse(b"bank::it\0\0\0"), None);
        assert_eq!(TestName::parse(&[0; 8]), None);
        assert_eq!(TestName::parse(b""), None);
    }
}
