//! Reading a whole trace at once.

use atomsan_trace::input::Source;
use atomsan_trace::read::{self, ReadError, ReadOptions, Summary};
use atomsan_trace::write::{Writer, Written};
use atomsan_trace::{Batch, Definition, Event, Format, Names, input::Compression};

/// Everything a trace said.
#[derive(Debug)]
pub struct Whole {
    pub names: Names,
    pub definitions: Vec<Definition>,
    pub events: Vec<Event>,
    pub format: Option<Format>,
    pub summary: Summary,
    pub error: Option<ReadError>,
}

/// Reads bytes to their end, or to what is wrong with them.
pub fn read_with(bytes: &[u8], options: &ReadOptions) -> Whole {
    let mut whole = Whole {
        names: Names::default(),
        definitions: Vec::new(),
        events: Vec::new(),
        format: None,
        summary: Summary::default(),
        error: None,
    };
    let mut trace = match read::open(&Source::bytes("t", bytes), options) {
        Ok(trace) => trace,
        Err(error) => {
            whole.error = Some(error);
            return whole;
        }
    };
    whole.format = Some(trace.format());
    loop {
        match trace.next() {
            Ok(Some(batch)) => {
                for definition in batch.definitions.drain(..) {
                    whole.definitions.push(definition.clone());
                    whole.names.define(definition);
                }
                whole.events.extend(&batch.events);
            }
            Ok(None) => break,
            Err(error) => {
                whole.error = Some(error);
                break;
            }
        }
    }
    assert!(trace.next().unwrap().is_none(), "the end is the end");
    whole.summary = trace.summary().clone();
    assert_eq!(whole.summary.events, whole.events.len() as u64);
    whole
}

/// Reads strictly, the format found by content.
pub fn read(bytes: impl AsRef<[u8]>) -> Whole {
    read_with(bytes.as_ref(), &ReadOptions::default())
}

/// Reads leniently, as a format.
pub fn lenient(bytes: impl AsRef<[u8]>, format: Format) -> Whole {
    let options = ReadOptions {
        format: Some(format),
        lenient: true,
    };
    read_with(bytes.as_ref(), &options)
}

/// Writes batches, uncompressed.
pub fn write(batches: &[Batch], format: Format) -> (Vec<u8>, Written) {
    let mut writer = Writer::new(format, Compression::None, Vec::new()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap()
}

impl Whole {
    /// Writes what was read.
    pub fn write(&self, format: Format) -> (Vec<u8>, Written) {
        let batch = Batch {
            definitions: self.definitions.clone(),
            events: self.events.clone(),
        };
        write(&[batch], format)
    }

    /// What went wrong, as the user sees it.
    pub fn message(&self) -> String {
        self.error.as_ref().expect("an error").to_string()
    }

    /// The events with their names: `thread op(target) file:line:column`.
    pub fn lines(&self) -> Vec<String> {
        self.events.iter().map(|event| self.line(event)).collect()
    }

    fn line(&self, event: &Event) -> String {
        use atomsan_trace::Op::*;
        let names = &self.names;
        let op = match event.op {
            Begin(f) => format!("begin({})", names.function_name(f)),
            End => "end".to_owned(),
            Read(x) => format!("read({})", names.var_name(x)),
            Write(x) => format!("write({})", names.var_name(x)),
            AtomicLoad(x) => format!("load({})", names.var_name(x)),
            AtomicStore(x) => format!("store({})", names.var_name(x)),
            Acquire(l) => format!("acquire({})", names.lock(l)),
            Release(l) => format!("release({})", names.lock(l)),
            Fork(t) => format!("fork({})", names.thread(t)),
            Join(t) => format!("join({})", names.thread(t)),
            Enter(f) => format!("enter({})", names.function_name(f)),
            Exit(f) => format!("exit({})", names.function_name(f)),
            other => format!("{other:?}"),
        };
        let site = names.site(event.site).expect("a site that was defined");
        let place = match site.frame() {
            Some(frame) => {
                let function = match frame.function {
                    Some(function) => format!(" in {}", names.function_name(function)),
                    None => String::new(),
                };
                format!("{}:{}:{}{function}", frame.file, frame.line, frame.column)
            }
            None => "?".to_owned(),
        };
        format!("{} {op} {place}", names.thread(event.thread))
    }
}
