//! The first of two runs: which regions are in a component of the imprecise graph. Nothing else is
//! written down by the program, and nothing else is looked at.

use crate::follow::{Haste, Options};
use crate::links::Links;
use crate::live::Live;
use crate::questions::Questions;
use atomsan_engines::doublechecker::runs::StaticInfo;
use std::io;

/// How many transactions must have ended before components are looked for.
const PATIENCE: usize = 1 << 10;

/// A first run, as far as it has been followed.
#[derive(Debug, Default)]
pub(crate) struct First {
    pub(crate) questions: Questions,
    pub(crate) links: Links,
    pub(crate) found: StaticInfo,
}

impl First {
    /// Follows the program as far as it is now. Edges are in no
    /// hurry: nobody waits for what is made of them, and many at once cost less than each by itself.
    pub(crate) fn advance(&mut self, live: &mut Live, options: &Options) -> io::Result<Haste> {
        let answered = self.questions.answer(live, options)?;
        live.look_at_clocks_only()?;
        let news = self.links.advance(live)? || answered;
        if self.links.is_due(PATIENCE, news) {
            self.check(options);
            self.links.rest();
        }
        self.links.tidy();
        Ok(if answered { Haste::Now } else { Haste::Later })
    }

    /// The program has ended.
    pub(crate) fn finish(&mut self, live: &mut Live, options: &Options) -> io::Result<()> {
        while self.advance(live, options)? == Haste::Now {}
        self.links.finish();
        self.check(options);
        Ok(())
    }

    /// Looks for components, and names their regions.
    fn check(&mut self, options: &Options) {
        let components = self.links.components();
        let largest = components.iter().map(Vec::len).max();
        if largest > Some(options.component_limit) {
            self.links.cut();
        }
        for region in self.links.notes.learn(&components) {
            if region == 0 {
                self.found.unary = true;
                continue;
            }
            let name = self.questions.name(region);
            self.found.regions.extend(name.as_deref().map(Box::from));
        }
    }
}
