//! What the program asks: which of its functions are regions.

use crate::follow::Options;
use crate::live::Live;
use atomsan_recording::answers::Answers;
use atomsan_recording::format::header;
use atomsan_recording::symbols::Symbols;
use atomsan_trace::Spec;
use std::io;
use std::rc::Rc;

/// The questions of a program, as far as they have been answered.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    answers: Option<Answers>,
    maps: String,
    answered: u64,
}

impl Questions {
    /// The memory map of the process.
    pub(crate) fn maps(&self) -> &str {
        &self.maps
    }

    fn answers(&mut self, live: &Live, options: &Options) -> io::Result<&mut Answers> {
        if self.answers.is_none() {
            self.maps = live.maps()?;
        }
        let maps = &*self.maps;
        Ok(self.answers.get_or_insert_with(|| {
            let symbols = Symbols::of_maps(std::iter::once(maps));
            Answers::new(symbols, options.recording.clone(), options.spec.clone())
        }))
    }

    /// Answers what the program has asked; whether there was anything.
    pub(crate) fn answer(&mut self, live: &Live, options: &Options) -> io::Result<bool> {
        let before = self.answered;
        let asked = live.counter(header::ASKED);
        while self.answered < asked
            && let Some(at) = live.asked(self.answered)?
        {
            let (from, function) = live.call(at)?;
            if self.answers(live, options)?.is_unknown(from, function)
                && self.maps != live.maps()?
            {
                // A library has been loaded since.
                self.answers = None;
            }
            let said = self.answers(live, options)?.answer(from, function);
            live.answer(at, said)?;
            self.answered += 1;
        }
        Ok(self.answered > before)
    }

    /// Other functions are regions from now on: answers everything again.
    pub(crate) fn answer_again(&mut self, live: &Live, spec: &Spec) -> io::Result<()> {
        let Some(answers) = &mut self.answers else {
            return Ok(());
        };
        answers.set_spec(spec.clone());
        for turn in 0..self.answered {
            if let Some(at) = live.asked(turn)? {
                let (from, function) = live.call(at)?;
                live.answer(at, answers.answer(from, function))?;
            }
        }
        Ok(())
    }

    /// The name of a region, by its number.
    pub(crate) fn name(
        &mut self,
        live: &Live,
        options: &Options,
        region: u16,
    ) -> io::Result<Option<Rc<str>>> {
        let (from, function) = live.call(usize::from(region / 4))?;
        let answers = self.answers(live, options)?;
        Ok(answers.name(from, function, u64::from(region % 4)))
    }
}
