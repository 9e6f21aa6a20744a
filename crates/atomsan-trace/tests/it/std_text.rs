//! RAPID's text format.

use crate::support::{lenient, read, read_with};
use atomsan_trace::read::ReadOptions;
use atomsan_trace::{Format, Op, SiteId, ThreadId};

#[test]
fn every_operation() {
    let whole = read(
        "T0|fork(T1)|1\nT1|begin(f)|2\nT1|begin|2\nT1|acq(L)|3\nT1|r(x)|4\nT1|w(x)|70000\n\
         T1|rel(L)|6\nT1|end|7\nT1|end(f)|0\nT0|join(T1)|4294967295\n",
    );
    assert!(whole.error.is_none());
    assert_eq!(whole.format, Some(Format::Std));
    assert_eq!(
        whole.lines(),
        [
            "T0 fork(T1) :1:0",
            "T1 begin(f) :2:0",
            "T1 begin() :2:0",
            "T1 acquire(L) :3:0",
            "T1 read(x) :4:0",
            "T1 write(x) :70000:0",
            "T1 release(L) :6:0",
            "T1 end :7:0",
            "T1 end :0:0",
            "T0 join(T1) :4294967295:0",
        ]
    );
    assert_eq!(whole.names.threads().len(), 2);
    assert_eq!(whole.names.vars().len(), 1);
    assert_eq!(whole.names.sites().len(), 10, "the unknown one and nine");
    assert!(whole.events.iter().all(|e| e.site != SiteId::UNKNOWN));
}

#[test]
fn begin_and_end_are_recognised_by_their_first_letters() {
    let whole = read("T|begin_transaction|1\nT|ending|2\nT|begin()|3\n");
    assert_eq!(
        whole.lines(),
        ["T begin() :1:0", "T end :2:0", "T begin() :3:0"]
    );
    assert_eq!(
        whole.names.functions().len(),
        1,
        "one function without a name"
    );
}

#[test]
fn names_may_contain_almost_anything() {
    let whole = read(concat!(
        "0|w(@03.Table.forks_\\[Z)|2\n",
        "0|r(@04[5])|4\n",
        "0|r(f(a,b)(c))|4\n",
        "0|w(null.A.x)|4\n",
        "0|r(\u{e4}\u{1F980})|4\n",
    ));
    let names: Vec<_> = whole.names.vars().iter().map(|v| &*v.name).collect();
    assert_eq!(
        names,
        [
            "@03.Table.forks_\\[Z",
            "@04[5]",
            "f(a,b)(c)",
            "null.A.x",
            "\u{e4}\u{1F980}"
        ]
    );
    let objects: Vec<_> = whole
        .names
        .vars()
        .iter()
        .map(|v| v.object.is_some())
        .collect();
    assert_eq!(objects, [true, true, false, false, false]);
}

#[test]
fn line_ends_of_all_kinds() {
    for text in [
        "a|r(x)|1\nb|w(x)|2",
        "a|r(x)|1\r\nb|w(x)|2\r\n\r\n",
        "a|r(x)|1\nb|w(x)|2\n\n\n",
    ] {
        let whole = read(text);
        assert!(whole.error.is_none(), "{text:?}");
        assert_eq!(
            whole.lines(),
            ["a read(x) :1:0", "b write(x) :2:0"],
            "{text:?}"
        );
    }
}

#[test]
fn nothing_is_a_trace_of_no_events() {
    let whole = read("");
    assert!(whole.error.is_none());
    assert_eq!(whole.events, []);
}

#[test]
fn a_bad_line_says_where_what_and_what_to_do() {
    for (line, message) in [
        ("T1 r(x) 3", "expected `thread|op|loc`, found `T1 r(x) 3`"),
        ("T1|r(x)", "expected `thread|op|loc`, found `r(x)`"),
        (
            "T1|r(x)|",
            "expected a location, a number below 2^32, after the last `|`, found nothing",
        ),
        (
            "T1|r(x)|a7",
            "expected a location, a number below 2^32, after the last `|`, found `a7`",
        ),
        ("T1|r(x)|4294967296", "found `4294967296`"),
        ("T1|r(x)|99999999999999999999999", "a number below 2^32"),
        (
            "T1|rd(x)|7",
            "expected r(x), w(x), acq(l), rel(l), fork(t), join(t), begin or end, found `rd(x)`",
        ),
        ("T1|acq|7", "found `acq`"),
        (
            "T1|r(x|7",
            "expected `)` at the end of the operation, found `r(x`",
        ),
        (
            "T1|r()|7",
            "expected a name that is not empty, found `T1|r()|7`",
        ),
        ("|r(x)|7", "expected a name that is not empty"),
        (
            "T1|r(a|b)|7",
            "expected a name without white space and without `|`",
        ),
        (
            "T1|r(a b)|7",
            "expected a name without white space and without `|`",
        ),
    ] {
        let whole = read(format!("T0|r(x)|1\n{line}\nT0|w(x)|2\n"));
        let found = whole.message();
        assert!(found.starts_with("t:2: "), "{found}");
        assert!(found.contains(message), "{found} should contain {message}");
        assert!(
            found.ends_with("; skip bad lines with --lenient"),
            "{found}"
        );
        assert_eq!(whole.lines(), ["T0 read(x) :1:0"], "what is in front of it");

        let whole = lenient(format!("T0|r(x)|1\n{line}\nT0|w(x)|2\n"), Format::Std);
        assert!(whole.error.is_none());
        assert_eq!(whole.lines(), ["T0 read(x) :1:0", "T0 write(x) :2:0"]);
        assert_eq!(whole.summary.skipped, 1);
        assert!(whole.summary.messages[0].contains(message));
    }
}

#[test]
fn a_message_does_not_write_to_the_terminal_what_the_trace_says() {
    let message = read("T|r(x)|1\n\x1b[2J\x07\u{e4}\n").message();
    assert!(
        message.contains("found `\\u{1b}[2J\\u{7}\u{e4}`"),
        "{message}"
    );
}

#[test]
fn a_thread_without_a_name_is_none_on_the_first_line_too() {
    let whole = lenient("|r(x)|1\nT|r(x)|2\n", Format::Std);
    assert_eq!(whole.lines(), ["T read(x) :2:0"]);
    assert_eq!(whole.summary.skipped, 1);
}

#[test]
fn fields_are_three() {
    for line in [
        "T|begin|1|2",
        "T|end(a|b)|1",
        "T|begin x|1",
        "T|r(x)|1|2",
        "T|S|r(x)|1",
    ] {
        let whole = read(format!("T|r(x)|1\n{line}\n"));
        assert!(whole.message().starts_with("t:2: expected "), "{line}");
        assert_eq!(whole.events.len(), 1, "{line}");
    }
}

#[test]
fn leading_zeros_are_no_matter() {
    assert_eq!(
        read("T|r(x)|00000000000000000000000007\n").lines(),
        ["T read(x) :7:0"]
    );
}

#[test]
fn only_the_first_few_bad_lines_are_told() {
    let whole = lenient("bad\n".repeat(1000), Format::Std);
    assert_eq!(whole.summary.skipped, 1000);
    assert_eq!(whole.summary.messages.len(), 5);
    assert!(whole.summary.messages[4].starts_with("t:5: "));
}

#[test]
fn a_line_without_end_is_bad_and_not_a_memory_hog() {
    let mut text = b"T|r(x)|1\n".to_vec();
    text.resize(3 << 20, b'a');
    text.extend_from_slice(b"\nT|w(x)|2\n");
    let whole = read(&text);
    assert!(whole.message().starts_with("t:2: "), "{}", whole.message());
    let whole = lenient(&text, Format::Std);
    assert_eq!(whole.lines(), ["T read(x) :1:0", "T write(x) :2:0"]);
    assert_eq!(whole.summary.skipped, 1);
}

#[test]
fn lines_across_blocks_are_whole() {
    let mut text = String::new();
    for i in 0..200_000 {
        text.push_str(&format!(
            "T{}|w(@{i:X}.some/Class.field)|{}\n",
            i % 7,
            i % 1000
        ));
    }
    let whole = read(&text);
    assert!(whole.error.is_none());
    assert_eq!(whole.summary.bytes, text.len() as u64);
    assert_eq!(whole.events.len(), 200_000);
    for (i, event) in whole.events.iter().enumerate() {
        assert_eq!(event.thread, ThreadId(i as u32 % 7));
        let Op::Write(var) = event.op else {
            panic!("{event:?}")
        };
        assert_eq!(var.index(), i);
        assert_eq!(
            whole.names.var_name(var),
            format!("@{i:X}.some/Class.field")
        );
        assert_eq!(
            whole.names.site(event.site).unwrap().frames[0].line,
            i as u32 % 1000
        );
    }
}

#[test]
fn what_is_not_a_trace_is_said_to_be_none() {
    let whole = read("hello\nworld\n");
    let message = whole.message();
    assert!(
        message.starts_with("t: not a trace: expected lines `thread|op|loc` (std)"),
        "{message}"
    );
}

#[test]
fn a_forced_format_is_not_questioned() {
    let options = ReadOptions {
        format: Some(Format::Std),
        lenient: false,
    };
    let whole = read_with(b"@ Rd(0,x)  Final  A.java:1:2\n", &options);
    assert!(whole.message().starts_with("t:1: expected `thread|op|loc`"));
}
