//! Bytes in: a file or standard input, plain, gzip or zstd.
//!
//! A thread of its own reads and decompresses, so that parsing never waits for the disk or the
//! decompressor. It hands over blocks through a bounded channel and gets them back through another
//! one: a fixed number of blocks circulates, and a reader that falls behind stops the thread
//! instead of filling the memory. Dropping the receiving end breaks the channel, which
//! ends the thread at its next block.
//!
//! Compression is recognised by its first bytes, never by the file's name. Concatenated gzip
//! members and zstd frames are one stream.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};

/// The size of a block. A few of them fit into the second-level cache.
const BLOCK: usize = 256 << 10;

/// How many filled blocks may wait.
const WAITING: usize = 4;

/// Where a trace comes from.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Stdin,
    File(PathBuf),
    Bytes(Arc<[u8]>),
}

impl Source {
    /// A file; `-` is standard input.
    pub fn path(path: impl AsRef<Path>) -> Source {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Source {
                name: "<stdin>".to_owned(),
                kind: Kind::Stdin,
            };
        }
        Source {
            name: path.display().to_string(),
            kind: Kind::File(path.to_owned()),
        }
    }

    /// Bytes in memory, with a name for messages.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Source {
        Source {
            name: name.into(),
            kind: Kind::Bytes(bytes.into()),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn open(&self) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
        Ok(match &self.kind {
            Kind::Stdin => (Box::new(io::stdin()), None),
            Kind::File(path) => {
                let file = File::open(path)?;
                let metadata = file.metadata()?;
                if metadata.is_dir() {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                let length = metadata.is_file().then_some(metadata.len());
                (Box::new(file), length)
            }
            Kind::Bytes(bytes) => {
                let length = bytes.len() as u64;
                (Box::new(Cursor::new(bytes.clone())), Some(length))
            }
        })
    }
}

/// How a stream of bytes is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Recognises the first bytes of a stream; four are enough.
    pub fn sniff(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A frame, or a skippable one in front of it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// How much of the input has been read, for a progress bar.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    done: Arc<AtomicU64>,
    /// How much there is, if that is known.
    pub(crate) total: Option<u64>,
}

impl Progress {
    /// Bytes read from the file, before decompression.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.done)
    }
}

struct Counted {
    inner: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.done.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A piece of the decompressed input.
#[derive(Debug)]
pub(crate) struct Block {
    data: Vec<u8>,
    length: usize,
}

impl Block {
    /// What is in it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[..self.length]
    }
}

/// The decompressed input, block by block.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// What was looked at before reading began.
    head: Vec<u8>,
    filled: Receiver<io::Result<Block>>,
    empty: Sender<Vec<u8>>,
    failure: Option<io::Error>,
}

/// Opens the input and starts the thread that reads it.
pub(crate) fn open(source: &Source) -> io::Result<(Blocks, Progress)> {
    let (inner, total) = source.open()?;
    let done = Arc::new(AtomicU64::new(0));
    let progress = Progress {
        done: done.clone(),
        total,
    };
    let (filled_in, filled) = mpsc::sync_channel(WAITING);
    let (empty, empty_out) = mpsc::channel();
    std::thread::Builder::new()
        .name("atomsan-input".to_owned())
        .spawn(move || {
            if let Err(error) = pump(Counted { inner, done }, &filled_in, &empty_out) {
                // Nobody listens: then nobody misses it.
                let _ = filled_in.send(Err(error));
            }
        })?;
    let blocks = Blocks {
        head: Vec::new(),
        filled,
        empty,
        failure: None,
    };
    Ok((blocks, progress))
}

/// Reads until the end or until nobody listens any more.
fn pump(
    mut raw: Counted,
    filled: &SyncSender<io::Result<Block>>,
    empty: &Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut magic = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut magic)?;
    let compression = Compression::sniff(&magic);
    let raw = Cursor::new(magic).chain(raw);
    let mut input: Box<dyn Read> = match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(BLOCK, raw))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(raw)?),
    };
    loop {
        let mut data = empty.try_recv().unwrap_or_else(|_| vec![0; BLOCK]);
        let length = match input.read(&mut data) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if length == 0 || filled.send(Ok(Block { data, length })).is_err() {
            return Ok(());
        }
    }
}

impl Blocks {
    /// Reads ahead until `enough` says so or `most` bytes are there or the input ends, and
    /// returns what was read; it will be the first block.
    pub(crate) fn peek(&mut self, most: usize, mut enough: impl FnMut(&[u8]) -> bool) -> &[u8] {
        while self.head.len() < most && !enough(&self.head) {
            match self.filled.recv() {
                Ok(Ok(block)) => {
                    self.head.extend_from_slice(block.bytes());
                    self.recycle(block);
                }
                Ok(Err(error)) => {
                    self.failure = Some(error);
                    break;
                }
                Err(_) => break,
            }
        }
        &self.head
    }

    /// Why reading ahead ended, if it failed.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// The next block; `idle` is called before waiting for one that is not there yet.
    pub(crate) fn next<E>(
        &mut self,
        idle: impl FnOnce() -> Result<(), E>,
    ) -> Result<io::Result<Option<Block>>, E> {
        if !self.head.is_empty() {
            let data = std::mem::take(&mut self.head);
            let length = data.len();
            return Ok(Ok(Some(Block { data, length })));
        }
        if let Some(error) = self.failure.take() {
            return Ok(Err(error));
        }
        let next = match self.filled.try_recv() {
            Ok(next) => Some(next),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                idle()?;
                self.filled.recv().ok()
            }
        };
        Ok(next.transpose())
    }

    /// Gives a block back to be filled again.
    pub(crate) fn recycle(&self, block: Block) {
        if block.data.len() == BLOCK {
            // The thread may have ended; then the block is simply freed.
            let _ = self.empty.send(block.data);
        }
    }
}
