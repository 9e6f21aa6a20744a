//! What the program asks: which of its functions are regions.

use crate::follow::Options;
use crate::live::Live;
use atomsan_recording::answers::{Answers, Numbers};
use atomsan_recording::symbols::Symbols;
use atomsan_trace::Spec;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// For so long the next question is waited for.
const AWAKE: Duration = Duration::from_micros(50);

/// The questions of a program, as far as they have been answered.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    answers: Option<Answers>,
    maps: String,
    /// What has been read of the process's files, while nobody answers.
    ahead: Option<Symbols>,
    answered: u64,
    /// The numbers of names, while nobody answers.
    numbers: Numbers,
}

impl Questions {
    /// The memory map of the process.
    pub(crate) fn maps(&self) -> &str {
        &self.maps
    }

    /// The names of the process, as far as they have been asked for.
    pub(crate) fn symbols(&self) -> Symbols {
        let answers = self.answers.as_ref();
        answers.map_or_else(
            || Symbols::of_maps(std::iter::once(&*self.maps)),
            |answers| answers.symbols().clone(),
        )
    }

    /// Takes what has been read of the process's files already.
    pub(crate) fn knows(&mut self, ahead: Symbols) {
        self.ahead = Some(ahead);
    }

    fn answers(&mut self, live: &Live, options: &Options) -> io::Result<&mut Answers> {
        if self.answers.is_none() {
            self.maps = live.maps()?;
        }
        let (maps, numbers, ahead) = (&*self.maps, &mut self.numbers, &mut self.ahead);
        Ok(self.answers.get_or_insert_with(|| {
            let mut symbols = Symbols::of_maps(std::iter::once(maps));
            if let Some(ahead) = ahead.take() {
                symbols.take_over(ahead);
            }
            let (sources, spec) = (options.recording.clone(), options.spec.clone());
            let answers = Answers::new(symbols, sources, spec, std::mem::take(numbers));
            match options.first_run {
                true => answers.without_plain_functions(),
                false => answers,
            }
        }))
    }

    /// Answers what the program has asked; whether there was anything. Whoever got an answer asks something else soon, most of the
    /// time, so it is waited for shortly: to be woken takes longer than to answer.
    pub(crate) fn answer(&mut self, live: &Live, options: &Options) -> io::Result<bool> {
        let before = self.answered;
        let mut answered = None::<Instant>;
        loop {
            let asked = live.calls(self.answered)?;
            if asked.is_empty() {
                if answered.is_some_and(|last| last.elapsed() < AWAKE) {
                    std::thread::yield_now();
                    continue;
                }
                return Ok(self.answered > before);
            }
            for (from, function) in asked {
                self.answer_one(live, options, from, function)?;
            }
            answered = Some(Instant::now());
        }
    }

    fn answer_one(
        &mut self,
        live: &Live,
        options: &Options,
        from: u64,
        function: u64,
    ) -> io::Result<()> {
        if self.answers(live, options)?.is_unknown(from, function) && self.maps != live.maps()? {
            // A library has been loaded since.
            if let Some(answers) = self.answers.take() {
                let (numbers, symbols) = answers.into_parts();
                (self.numbers, self.ahead) = (numbers, Some(symbols));
            }
        }
        let said = self.answers(live, options)?.answer(from, function);
        live.answer(self.answered, said, Some(0))?;
        self.answered += 1;
        Ok(())
    }

    /// Other functions are regions from now on: answers everything again.
    pub(crate) fn answer_again(&mut self, live: &Live, spec: &Spec) -> io::Result<()> {
        let Some(answers) = &mut self.answers else {
            return Ok(());
        };
        answers.set_spec(spec.clone());
        let mut turn = 0;
        while turn < self.answered {
            let calls = live.calls(turn)?;
            if calls.is_empty() {
                break;
            }
            for (from, function) in calls.into_iter().take((self.answered - turn) as usize) {
                live.answer(turn, answers.answer(from, function), None)?;
                turn += 1;
            }
        }
        Ok(())
    }

    /// The name of a region, by its number.
    pub(crate) fn name(&self, region: u16) -> Option<Rc<str>> {
        let numbers = self
            .answers
            .as_ref()
            .map_or(&self.numbers, Answers::numbers);
        numbers.name(region.into())
    }

    /// How many functions there were no numbers for.
    pub(crate) fn refused(&self) -> u64 {
        self.answers
            .as_ref()
            .map_or(0, |answers| answers.numbers().refused())
    }
}
