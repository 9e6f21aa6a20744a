//! What is read of a program before it runs.
//!
//! A program that is checked while it runs waits for the answer to its first question, and most of that time is spent
//! on headers, symbols and line tables of the program's file. Which file that is can be known as soon as the program is started,
//! and while it is loaded there is nothing else to do. Where the file is going to be mapped is not known then, and what is read
//! does not depend on it: so it can be [taken over](Symbols::take_over) when that is known.

use super::{Module, Symbols};
use std::mem::take;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// For so long units are read ahead, which is about as long as it takes to load a program: who asks meanwhile has to wait.
const SHORTLY: Duration = Duration::from_micros(1500);

impl Symbols {
    /// What the first questions about a program are answered by, read from its file.
    pub fn ahead(path: &Path) -> Symbols {
        let started = Instant::now();
        let module = Module::new(0..0, path);
        module.image();
        let others = module.tools().others().iter();
        if let Some(lines) = module.lines() {
            // What is found is of no interest: units are read when something is looked for in them.
            let read = |&address: &u64| drop(lines.find_frames(address));
            others
                .take_while(|_| started.elapsed() < SHORTLY)
                .for_each(read);
        }
        Symbols::of_modules(vec![module])
    }

    /// Takes what has been read of the same files already, unless somebody else still needs it.
    pub fn take_over(&mut self, mut earlier: Symbols) {
        let modules = (
            Rc::get_mut(&mut self.modules),
            Rc::get_mut(&mut earlier.modules),
        );
        let (Some(modules), Some(earlier)) = modules else {
            return;
        };
        for module in modules {
            let mut earlier = earlier.iter_mut();
            if let Some(earlier) = earlier.find(|earlier| earlier.path == module.path) {
                module.lines = take(&mut earlier.lines);
                module.image = take(&mut earlier.image);
                module.tools = take(&mut earlier.tools);
                module.code = take(&mut earlier.code);
                module.statics = take(&mut earlier.statics);
                module.types = take(&mut earlier.types);
                module.locals = take(&mut earlier.locals);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_ahead_is_taken_over() {
        // A place in this function.
        let place = what_is_read_ahead_is_taken_over as fn() as usize as u64 + 2;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_maps = || Symbols::of_maps(std::iter::once(&*maps));
        let asked = |symbols: &mut Symbols| symbols.frames(place).to_vec();
        let expected = asked(&mut of_maps());
        assert!(
            expected
                .iter()
                .any(|frame| frame.function.ends_with("what_is_read_ahead_is_taken_over"))
        );

        let program = std::env::current_exe().unwrap();
        let mut first = of_maps();
        first.take_over(Symbols::ahead(&program));
        let read = |symbols: &Symbols| {
            let mut modules = symbols.modules.iter();
            let module = modules.find(|module| module.path == program).unwrap();
            module.lines.get().is_some()
        };
        assert!(read(&first));
        assert_eq!(asked(&mut first), expected);

        // From what is in use nothing is taken.
        let shared = first.clone();
        let mut second = of_maps();
        second.take_over(first);
        assert!(!read(&second) && read(&shared));
        second.take_over(shared);
        assert!(read(&second));
        assert_eq!(asked(&mut second), expected);
        // A file that is not mapped adds nothing.
        second.take_over(Symbols::ahead(Path::new("/no/such/file")));
        assert_eq!(asked(&mut second), expected);
    }
}
