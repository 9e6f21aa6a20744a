//! What the addresses of the program stand for: functions, lines, statics.
//!
//! The recording holds the memory map of the process; the files it names hold line tables and
//! symbols. Each program counter is looked up once. A file that is gone or has no debug
//! information costs names, not events.

mod ahead;
mod around;

use crate::code::Code;
use crate::file::Recording;
use crate::names::Names;
use crate::types::{Local, TypeId, Types};
use crate::units::ToolUnits;
use gimli::ReaderOffset as _;
use hashbrown::HashMap;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use rustc_hash::FxBuildHasher;
use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A function and a line in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// The function's full name, demangled, as it is [written](crate::written).
    pub function: Rc<str>,
    /// The source file, absolute where the compiler said so; empty if unknown.
    pub file: Rc<str>,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

/// A file that is mapped into the process.
struct Module {
    range: Range<u64>,
    path: PathBuf,
    lines: OnceCell<Option<addr2line::Loader>>,
    image: OnceCell<Image>,
    tools: OnceCell<ToolUnits>,
    code: OnceCell<Code>,
    statics: OnceCell<Vec<Static>>,
    types: OnceCell<Option<Types>>,
    /// The locals of functions, by an address in them.
    locals: RefCell<HashMap<u64, Rc<[Local]>, FxBuildHasher>>,
}

/// Address, size and name of a static.
type Static = (u64, u64, String);

/// What the file's headers say.
#[derive(Default)]
struct Image {
    /// The lowest address that the file asks for.
    base: u64,
    /// Places in functions that are marked as not atomic.
    not_atomic: Vec<u64>,
}

/// The section that the annotation `not_atomic` writes such places to: 32 bits each, relative to
/// where they are.
const NOT_ATOMIC: &str = "atomsan_not_atomic";

/// The names of a process.
#[derive(Clone)]
pub struct Symbols {
    /// Shared by all copies: what has been read of them takes time and memory.
    modules: Rc<[Module]>,
    frames: HashMap<u64, Rc<[Frame]>, FxBuildHasher>,
    names: Names,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.modules.iter().map(|module| &module.path))
            .finish()
    }
}

impl Symbols {
    /// The names of the process that a recording was made of.
    pub fn new(recording: &Recording) -> Symbols {
        Symbols::of_maps(recording.maps())
    }

    /// The names of a process with these memory maps.
    pub fn of_maps<'a>(maps: impl Iterator<Item = &'a str>) -> Symbols {
        let mut modules: Vec<Module> = Vec::new();
        let lines: Vec<&str> = maps.flat_map(str::lines).collect();
        // Files of data can be mapped too, and be large: the recording is one.
        let code: Vec<&str> = (lines.iter())
            .filter(|line| is_code(line))
            .filter_map(|line| Some(mapped_file(line)?.1))
            .collect();
        for (range, path) in lines
            .into_iter()
            .filter_map(mapped_file)
            .filter(|(_, path)| code.contains(path))
        {
            match modules
                .iter_mut()
                .find(|module| module.path == Path::new(path))
            {
                Some(module) => {
                    module.range.start = module.range.start.min(range.start);
                    module.range.end = module.range.end.max(range.end);
                }
                None => modules.push(Module::new(range, Path::new(path))),
            }
        }
        Symbols::of_modules(modules)
    }

    fn of_modules(modules: Vec<Module>) -> Symbols {
        Symbols {
            modules: modules.into(),
            frames: HashMap::default(),
            names: Names::default(),
        }
    }

    /// A process of which only these places are known: for each, the functions that its frames are
    /// in, all in one file.
    #[cfg(test)]
    pub(crate) fn of_places(places: &[(u64, &str, &[&str])]) -> Symbols {
        let frames = places.iter().map(|&(pc, file, functions)| {
            let frame = |function: &&str| Frame {
                function: (*function).into(),
                file: file.into(),
                line: pc as u32,
                column: 0,
            };
            (pc, functions.iter().map(frame).collect())
        });
        Symbols {
            modules: Rc::default(),
            frames: frames.collect(),
            names: Names::default(),
        }
    }

    /// The frames at a return address: the innermost inlined function first, the function whose
    /// code it is last. Empty if nothing is known.
    pub fn frames(&mut self, pc: u64) -> Rc<[Frame]> {
        if let Some(known) = self.frames.get(&pc) {
            return Rc::clone(known);
        }
        let frames: Rc<[Frame]> = self.look_up(pc).unwrap_or_default().into();
        self.frames.insert(pc, Rc::clone(&frames));
        frames
    }

    /// Whether a return address is in code that is certainly neither the user's nor instrumented: in
    /// the system's libraries, or in what was compiled with the toolchain.
    pub(crate) fn is_tools(&self, pc: u64) -> bool {
        let pc = pc.wrapping_sub(1);
        let mut modules = self.modules.iter();
        modules
            .find(|module| module.range.contains(&pc))
            .is_some_and(|module| {
                module.is_system() || {
                    let address = pc - module.range.start + module.image().base;
                    module.tools().contains(address)
                }
            })
    }

    /// Where those calls return to that wait with a lock, in the function that a return address is in.
    pub(crate) fn waits(&self, pc: u64) -> Vec<u64> {
        let waits = || {
            let pc = pc.checked_sub(1)?;
            let mut modules = self.modules.iter();
            let module = modules.find(|module| module.range.contains(&pc))?;
            let (start, base) = (module.range.start, module.image().base);
            let code = module.code.get_or_init(|| Code::read(&module.path));
            let waits = code.waits(&module.path, pc - start + base).into_iter();
            Some(waits.map(|after| after - base + start).collect())
        };
        waits().unwrap_or_default()
    }

    fn look_up(&mut self, pc: u64) -> Option<Vec<Frame>> {
        // A return address is behind the call, which may be the last instruction of its line.
        let pc = pc.checked_sub(1)?;
        let module = self
            .modules
            .iter()
            .find(|module| module.range.contains(&pc))?;
        let lines = module.lines()?;
        let address = pc - module.range.start + module.image().base;
        let names = &mut self.names;
        let mut frames = Vec::new();
        if let Ok(mut found) = lines.find_frames(address) {
            while let Ok(Some(frame)) = found.next() {
                let name = frame.function.as_ref();
                let function = match name.and_then(|name| Some((name.raw_name().ok()?, name))) {
                    Some((raw, name)) => names.function(&raw, name.language),
                    None => match lines.find_symbol(address) {
                        Some(symbol) => names.function(symbol, None),
                        None => continue,
                    },
                };
                let location = frame.location.as_ref();
                frames.push(Frame {
                    function,
                    file: names.file(location.and_then(|at| at.file).unwrap_or("")),
                    line: location.and_then(|at| at.line).unwrap_or(0),
                    column: location.and_then(|at| at.column).unwrap_or(0),
                });
            }
        }
        if frames.is_empty() {
            frames.push(Frame {
                function: names.function(lines.find_symbol(address)?, None),
                file: names.file(""),
                line: 0,
                column: 0,
            });
        }
        Some(frames)
    }

    /// What lies at an address, if that is in a static: the static, and all of it that is known,
    /// `account.balance`, or `account+8` where nothing is known of types.
    pub fn static_name(&self, address: u64) -> Option<(&str, String)> {
        // A file's zeroed statics lie behind what is mapped of it.
        let module = self
            .modules
            .iter()
            .filter(|module| module.range.start <= address)
            .max_by_key(|module| module.range.start)?;
        let (image, statics) = (module.image(), module.statics());
        let address = address - module.range.start + image.base;
        let after = statics.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = statics.get(after.checked_sub(1)?)?;
        let offset = address - start;
        if offset >= *size {
            return None;
        }
        let path = module.types().and_then(|types| types.path(*start, offset));
        let whole = match (path, offset) {
            (Some(path), _) => format!("{name}{path}"),
            (None, 0) => name.clone(),
            (None, offset) => format!("{name}+{offset}"),
        };
        Some((name, whole))
    }
}

/// A type of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Type {
    module: usize,
    of: TypeId,
}

impl Symbols {
    /// The types that the innermost of the functions at a return address are generic over, as many
    /// functions as asked for, the innermost first, with the number of the function.
    pub(crate) fn parameters(&self, pc: u64, functions: usize) -> Vec<(usize, Type)> {
        let parameters = || {
            let pc = pc.checked_sub(1)?;
            let module = (self.modules.iter()).position(|module| module.range.contains(&pc))?;
            let (at, lines) = (module, self.modules[module].lines()?);
            let module = &self.modules[at];
            let types = module.types()?;
            let address = pc - module.range.start + module.image().base;
            let mut found = Vec::new();
            let mut frames = lines.find_frames(address).ok()?;
            for number in 0..functions {
                let Ok(Some(frame)) = frames.next() else {
                    break;
                };
                if let Some(function) = frame.dw_die_offset {
                    let of = types.parameters(address, function.0.into_u64() as usize);
                    let of = of.into_iter().map(|of| Type { module: at, of });
                    found.extend(of.map(|of| (number, of)));
                }
            }
            Some(found)
        };
        parameters().unwrap_or_default()
    }

    /// What a function has so many bytes above its stack pointer: `account.balance`. The function is
    /// the one that a return address behind its prologue is in.
    pub(crate) fn local(&self, pc: u64, offset: u64) -> Option<String> {
        let address = pc.checked_sub(1)?;
        let mut modules = self.modules.iter();
        let module = modules.find(|module| module.range.contains(&address))?;
        let address = address - module.range.start + module.image().base;
        let types = module.types()?;
        let known = module.locals.borrow().get(&address).map(Rc::clone);
        let locals = known.unwrap_or_else(|| {
            let locals: Rc<[Local]> = module
                .read_locals(types, address)
                .unwrap_or_default()
                .into();
            module
                .locals
                .borrow_mut()
                .insert(address, Rc::clone(&locals));
            locals
        });
        let mut found = locals.iter().filter(|local| local.bytes.contains(&offset));
        let local = found.next_back()?;
        let path = types.path_in(local.of, offset - local.bytes.start);
        Some(format!("{}{path}", local.name))
    }

    /// How many bytes a value of a type has.
    pub(crate) fn size(&self, of: Type) -> Option<u64> {
        self.modules[of.module].types()?.size(of.of)
    }

    /// What is so many bytes into a value of a type.
    pub(crate) fn member(&self, of: Type, offset: u64) -> Option<String> {
        self.modules[of.module].types()?.member(of.of, offset)
    }

    /// Places in functions that the program has marked as not atomic, as return addresses there.
    pub fn not_atomic(&self) -> Vec<u64> {
        self.modules
            .iter()
            .filter(|module| !module.is_system())
            .flat_map(|module| {
                let image = module.image();
                let place = |address: &u64| {
                    (address.wrapping_sub(image.base)).wrapping_add(module.range.start) + 1
                };
                image.not_atomic.iter().map(place).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The string at an address of a file that is mapped: of this length, or up to a zero byte if
    /// that is 0.
    pub fn string_at(&self, address: u64, len: u16) -> Option<String> {
        let module = self
            .modules
            .iter()
            .find(|module| module.range.contains(&address))?;
        let data = parts(&module.path)?;
        let file = object::File::parse(&data).ok()?;
        let address = address - module.range.start + module.image().base;
        let segment = file.segments().find(|segment| {
            (segment.address()..segment.address() + segment.size()).contains(&address)
        })?;
        let bytes = segment
            .data()
            .ok()?
            .get((address - segment.address()) as usize..)?;
        let end = match len {
            0 => bytes.iter().position(|&byte| byte == 0)?,
            len => usize::from(len),
        };
        Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
    }
}

impl Module {
    /// A file, of which nothing has been read.
    fn new(range: Range<u64>, path: &Path) -> Module {
        Module {
            range,
            path: path.to_owned(),
            lines: OnceCell::new(),
            image: OnceCell::new(),
            tools: OnceCell::new(),
            code: OnceCell::new(),
            statics: OnceCell::new(),
            types: OnceCell::new(),
            locals: RefCell::default(),
        }
    }

    /// Whether it is one of the libraries of the system that are never instrumented.
    fn is_system(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.is_some_and(is_system)
    }

    fn tools(&self) -> &ToolUnits {
        self.tools.get_or_init(|| ToolUnits::read(&self.path))
    }

    fn lines(&self) -> Option<&addr2line::Loader> {
        self.lines
            .get_or_init(|| addr2line::Loader::new(&self.path).ok())
            .as_ref()
    }

    fn read_locals(&self, types: &Types, address: u64) -> Option<Vec<Local>> {
        let mut frames = self.lines()?.find_frames(address).ok()?;
        let mut function = None;
        while let Ok(Some(frame)) = frames.next() {
            function = frame.dw_die_offset;
        }
        let data = parts(&self.path)?;
        let file = object::File::parse(&data).ok()?;
        types.locals(&file, address, function?.0.into_u64() as usize)
    }

    fn types(&self) -> Option<&Types> {
        let read = || Types::read(&self.path);
        self.types.get_or_init(read).as_ref()
    }

    fn image(&self) -> &Image {
        self.image
            .get_or_init(|| Image::read(&self.path).unwrap_or_default())
    }

    fn statics(&self) -> &[Static] {
        self.statics
            .get_or_init(|| statics(&self.path).unwrap_or_default())
    }
}

/// A file, of which only those parts are read that are asked for.
fn parts(path: &Path) -> Option<ReadCache<std::fs::File>> {
    Some(ReadCache::new(std::fs::File::open(path).ok()?))
}

/// What the symbol table says of statics, in order.
fn statics(path: &Path) -> Option<Vec<Static>> {
    let data = parts(path)?;
    let file = object::File::parse(&data).ok()?;
    let mut statics: Vec<Static> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0)
        .filter_map(|symbol| {
            Some((
                symbol.address(),
                symbol.size(),
                demangle(as_written(symbol.name().ok()?)),
            ))
        })
        .collect();
    statics.sort();
    Some(statics)
}

impl Image {
    fn read(path: &Path) -> Option<Image> {
        let data = parts(path)?;
        let file = object::File::parse(&data).ok()?;
        let base = file.segments().map(|segment| segment.address()).min()? & !0xfff;
        let not_atomic = file
            .section_by_name(NOT_ATOMIC)
            .and_then(|section| Some((section.address(), section.data().ok()?)))
            .map_or_else(Vec::new, |(start, data)| marked_places(start, data));
        Some(Image { base, not_atomic })
    }
}

/// The places that a section of relative addresses names.
fn marked_places(start: u64, data: &[u8]) -> Vec<u64> {
    let places = data.chunks_exact(4).zip((start..).step_by(4));
    places
        .map(|(bytes, at)| {
            let distance = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            at.wrapping_add_signed(distance.into())
        })
        .collect()
}

/// Whether a file of this name is a library of the system whose functions the runtime stands in front
/// of, or the runtime.
fn is_system(name: &str) -> bool {
    const SYSTEM: [&str; 12] = [
        "ld-linux",
        "libc.so",
        "libc-",
        "libm.so",
        "libm-",
        "libgcc_s",
        "libstdc++",
        "libpthread",
        "libdl",
        "librt",
        "libatomsan_rt",
        "libtsan",
    ];
    SYSTEM.iter().any(|system| name.starts_with(system))
}

/// The file names of libraries that took part and were not compiled with instrumentation, so that
/// nothing of what they did was seen. Those of the system whose functions the runtime stands in front
/// of do not count.
pub fn uninstrumented(recording: &Recording) -> Vec<String> {
    programs(recording)
        .into_iter()
        .filter_map(|path| Some((path, Path::new(path).file_name()?.to_str()?)))
        .filter(|(_, name)| !is_system(name))
        .filter(|(path, _)| is_instrumented(Path::new(path)) == Some(false))
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// The files whose code took part, each once.
pub(crate) fn programs(recording: &Recording) -> Vec<&str> {
    let mut paths: Vec<&str> = recording
        .maps()
        .flat_map(str::lines)
        .filter(|line| is_code(line))
        .filter_map(|line| Some(mapped_file(line)?.1))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Whether a file refers to the runtime; `None` if it cannot be read.
fn is_instrumented(path: &Path) -> Option<bool> {
    let data = parts(path)?;
    let file = object::File::parse(&data).ok()?;
    let mut symbols = file.dynamic_symbols();
    Some(symbols.any(|symbol| symbol.name().is_ok_and(|name| name.starts_with("__tsan_"))))
}

/// A static's name without the number that a compiler has put behind it, to tell statics of
/// different functions apart: `count.0`.
fn as_written(name: &str) -> &str {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((start, rest)) if number(rest) && !start.is_empty() => start,
        _ => name,
    }
}

pub(crate) fn demangle(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

/// Whether a line of `/proc/self/maps` says that something can be executed.
fn is_code(line: &str) -> bool {
    let rights = line.split(' ').nth(1);
    rights.is_some_and(|rights| rights.contains('x'))
}

/// A line of `/proc/self/maps` that names a file.
fn mapped_file(line: &str) -> Option<(Range<u64>, &str)> {
    let path = &line[line.find('/')?..];
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?..number(end)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_not_instrumented() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(is_instrumented(&program), Some(false));
        assert_eq!(is_instrumented(Path::new("/no/such/file")), None);
    }

    #[test]
    fn the_standard_library_is_told_from_the_rest() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let symbols = Symbols::of_maps(std::iter::once(&*maps));
        let inside = |function: usize| symbols.is_tools(function as u64 + 2);
        let precompiled: fn() -> std::io::Result<PathBuf> = std::env::current_exe;
        let own: fn(&str) -> bool = is_code;
        assert!(inside(precompiled as usize));
        assert!(!inside(own as usize));
    }

    #[test]
    fn statics_have_no_numbers_behind_them() {
        assert_eq!(as_written("count.0"), "count");
        assert_eq!(as_written("count"), "count");
        assert_eq!(as_written("a.lto_priv"), "a.lto_priv");
        assert_eq!(as_written(".0"), ".0");
    }

    #[test]
    fn places_are_relative_to_where_they_are_written() {
        let data = [(-0x10i32).to_le_bytes(), 8i32.to_le_bytes()].concat();
        assert_eq!(marked_places(0x1000, &data), [0xff0, 0x100c]);
    }

    #[test]
    fn lines_of_the_memory_map() {
        let line = "7f00-7f20 r-xp 00001000 08:01 42                 /usr/lib/my lib.so";
        assert_eq!(
            mapped_file(line),
            Some((0x7f00..0x7f20, "/usr/lib/my lib.so"))
        );
        assert!(is_code(line));
        assert!(!is_code("7f00-7f20 r--p 00001000 08:01 42    /x.so"));
        assert_eq!(
            mapped_file("7f00-7f20 rw-p 00000000 00:00 0   [heap]"),
            None
        );
    }
}
