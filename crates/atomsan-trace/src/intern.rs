//! Names to ids.
//!
//! A trace says the same few thousand names over and over. Each kind of name has an [`Interner`]:
//! all its names lie end to end in one buffer, and a hash table finds them, so a name that is
//! known costs one hash and one comparison, and no allocation. A name that is new gets the next
//! id of its kind and is announced as a [`Definition`] in the batch at hand, which is in front of
//! the event that uses it.
//!
//! Whatever else has to be found out about a name (is it a legal one? which object does the
//! variable live in?) is found out when it is new, and so costs nothing per event.

use crate::Batch;
use crate::event::{FunctionId, LockId, ObjectId, SiteId, ThreadId, VarId};
use crate::names::{Definition, Frame, Site, Var};
use foldhash::fast::RandomState;
use hashbrown::hash_table::{Entry as Slot, HashTable};
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher};

/// A name that cannot be one; the text says why.
#[derive(Debug)]
pub(crate) struct BadName(pub(crate) &'static str);

const TOO_MANY: BadName = BadName("one of fewer than 2^32 different names");

#[derive(Debug)]
struct Entry {
    start: usize,
    length: u32,
    id: u32,
}

/// Byte strings, numbered from 0 in the order they first appear.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    bytes: Vec<u8>,
    /// Where the name of each id ends; the next one begins there.
    ends: Vec<usize>,
    table: HashTable<Entry>,
    state: RandomState,
}

fn hash(state: &RandomState, name: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(name);
    hasher.finish()
}

impl Interner {
    /// The id of a name; `define` is called if it is new, and decides whether it may be one.
    #[inline]
    pub(crate) fn intern<E: From<BadName>>(
        &mut self,
        name: &[u8],
        define: impl FnOnce() -> Result<(), E>,
    ) -> Result<u32, E> {
        let Interner {
            bytes,
            ends,
            table,
            state,
        } = self;
        let known = table.len();
        let slot = table.entry(
            hash(state, name),
            |entry| &bytes[entry.start..entry.start + entry.length as usize] == name,
            |entry| {
                hash(
                    state,
                    &bytes[entry.start..entry.start + entry.length as usize],
                )
            },
        );
        match slot {
            Slot::Occupied(slot) => Ok(slot.get().id),
            Slot::Vacant(slot) => {
                let id = u32::try_from(known).map_err(|_| TOO_MANY)?;
                let length = u32::try_from(name.len()).map_err(|_| BadName("a shorter name"))?;
                define()?;
                slot.insert(Entry {
                    start: bytes.len(),
                    length,
                    id,
                });
                bytes.extend_from_slice(name);
                ends.push(bytes.len());
                Ok(id)
            }
        }
    }

    /// Whether this is the name of that id.
    #[inline]
    pub(crate) fn is(&self, id: u32, name: &[u8]) -> bool {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else {
            return false;
        };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..end] == name
    }

    /// Adds a name and says whether it is new.
    pub(crate) fn insert(&mut self, name: &[u8]) -> bool {
        let known = self.table.len();
        // A name that cannot be added is as good as new: it has no id to share.
        let id = self.intern::<BadName>(name, || Ok(()));
        id.map_or(true, |id| id as usize == known)
    }
}

/// The names of a text trace, by kind.
#[derive(Debug, Default)]
pub(crate) struct Intern {
    threads: Interner,
    vars: Interner,
    locks: Interner,
    functions: Interner,
    objects: Interner,
    sites: Interner,
}

impl Intern {
    /// A thread.
    #[inline]
    pub(crate) fn thread(&mut self, name: &[u8], batch: &mut Batch) -> Result<ThreadId, BadName> {
        let define = || define(name, batch, Definition::Thread);
        self.threads.intern(name, define).map(ThreadId)
    }

    /// A lock.
    #[inline]
    pub(crate) fn lock(&mut self, name: &[u8], batch: &mut Batch) -> Result<LockId, BadName> {
        let define = || define(name, batch, Definition::Lock);
        self.locks.intern(name, define).map(LockId)
    }

    /// A function or label; the only kind of name that may be empty.
    #[inline]
    pub(crate) fn function(
        &mut self,
        name: &[u8],
        batch: &mut Batch,
    ) -> Result<FunctionId, BadName> {
        let define = || {
            if name.is_empty() {
                batch.definitions.push(Definition::Function("".into()));
                return Ok(());
            }
            define(name, batch, Definition::Function)
        };
        self.functions.intern(name, define).map(FunctionId)
    }

    /// A variable. `@id.field` and `@id[index]` live in the object `@id`; everything else
    /// (`null.Class.field` is a static) in none.
    #[inline]
    pub(crate) fn var(
        &mut self,
        name: &[u8],
        volatile: bool,
        batch: &mut Batch,
    ) -> Result<VarId, BadName> {
        let objects = &mut self.objects;
        let define_var = || {
            let object = match object_of(name) {
                Some(object) => {
                    let define = || define(object, batch, Definition::Object);
                    Some(ObjectId(objects.intern(object, define)?))
                }
                None => None,
            };
            define(name, batch, |name| {
                Definition::Var(Var {
                    name,
                    object,
                    volatile,
                })
            })
        };
        self.vars.intern(name, define_var).map(VarId)
    }

    /// Whether this is the name of that variable.
    #[inline]
    pub(crate) fn is_var(&self, id: VarId, name: &[u8]) -> bool {
        self.vars.is(id.0, name)
    }

    /// A place that `key` stands for; `frame` makes it if it is new.
    #[inline]
    pub(crate) fn site(
        &mut self,
        key: &[u8],
        batch: &mut Batch,
        frame: impl FnOnce() -> Frame,
    ) -> Result<SiteId, BadName> {
        let define = || {
            let frames = vec![frame()];
            batch.definitions.push(Definition::Site(Site {
                frames,
                ..Site::default()
            }));
            Ok(())
        };
        let id = self.sites.intern(key, define)?;
        // Site 0 is the unknown one.
        id.checked_add(1).map(SiteId).ok_or(TOO_MANY)
    }
}

#[cold]
fn define(
    name: &[u8],
    batch: &mut Batch,
    make: impl FnOnce(Box<str>) -> Definition,
) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName("a name that is not empty"));
    }
    if name.iter().any(|&b| b == b'|' || b.is_ascii_whitespace()) {
        return Err(BadName("a name without white space and without `|`"));
    }
    batch.definitions.push(make(text(name).into()));
    Ok(())
}

/// Bytes as text; what is not UTF-8 is spelt `\xNN`, so different names stay different.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The `@id` of `@id.field` and `@id[index]`.
fn object_of(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"@")?;
    let end = memchr::memchr2(b'.', b'[', rest)?;
    (end > 0).then(|| &name[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_defined_once_and_in_front_of_its_use() {
        let (mut intern, mut batch) = (Intern::default(), Batch::default());
        let x = intern.var(b"@0C.A.x", false, &mut batch).unwrap();
        let y = intern.var(b"@0C[1]", true, &mut batch).unwrap();
        let z = intern.var(b"null.A.z", false, &mut batch).unwrap();
        assert_eq!(intern.var(b"@0C.A.x", false, &mut batch).unwrap(), x);
        assert!(intern.is_var(x, b"@0C.A.x") && intern.is_var(y, b"@0C[1]"));
        assert!(!intern.is_var(y, b"@0C.A.x") && !intern.is_var(VarId(3), b""));
        assert_eq!((x, y, z), (VarId(0), VarId(1), VarId(2)));
        let var = |name: &str, object, volatile| {
            Definition::Var(Var {
                name: name.into(),
                object,
                volatile,
            })
        };
        assert_eq!(
            batch.definitions,
            [
                Definition::Object("@0C".into()),
                var("@0C.A.x", Some(ObjectId(0)), false),
                var("@0C[1]", Some(ObjectId(0)), true),
                var("null.A.z", None, false),
            ]
        );
    }

    #[test]
    fn many_names_keep_their_ids() {
        let (mut intern, mut batch) = (Intern::default(), Batch::default());
        for round in 0..2 {
            for i in 0..10_000_u32 {
                let id = intern.lock(format!("l{i}").as_bytes(), &mut batch).unwrap();
                assert_eq!(id, LockId(i), "round {round}");
            }
        }
        assert_eq!(batch.definitions.len(), 10_000);
    }

    #[test]
    fn names_that_cannot_be_names_get_no_id() {
        let (mut intern, mut batch) = (Intern::default(), Batch::default());
        for name in [&b""[..], b"a b", b"a|b", b"a\tb"] {
            intern.thread(name, &mut batch).unwrap_err();
        }
        assert!(batch.definitions.is_empty());
        assert_eq!(intern.thread(b"ok", &mut batch).unwrap(), ThreadId(0));
        assert_eq!(intern.function(b"", &mut batch).unwrap(), FunctionId(0));
    }

    #[test]
    fn bytes_that_are_not_text_stay_different() {
        assert_eq!(text(b"a\xffb\xc3\xa4"), "a\\xffb\u{e4}");
        assert_ne!(text(b"\xfe"), text(b"\xff"));
    }

    #[test]
    fn objects() {
        assert_eq!(object_of(b"@0C.x"), Some(&b"@0C"[..]));
        assert_eq!(object_of(b"@04[5]"), Some(&b"@04"[..]));
        assert_eq!(object_of(b"@04"), None);
        assert_eq!(object_of(b"@.x"), None);
        assert_eq!(object_of(b"null.A.x"), None);
    }
}
