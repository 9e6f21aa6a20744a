//! What each kind of finding means: the long answer, for `atomsan explain CODE`, and the rules of
//! SARIF.

/// An explanation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// What findings call it.
    pub code: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// An example: what two threads do, time downwards.
    pub example: &'static str,
    /// What is usually done about it.
    pub fixes: &'static str,
    /// When nothing has to be done.
    pub harmless: &'static str,
}

/// The anomalies, then the criteria.
pub const ALL: &[Explanation] = &[
    Explanation {
        code: "lost-update",
        title: "wrote from a stale read",
        meaning: "\
A function read a value, another thread changed it, and the function then wrote something that it
had worked out from what it read. The other thread's change is gone. Each access may be under a
lock: the mistake is that the lock was let go between the read and the write.",
        example: "  withdraw(30)                    withdraw(50)
  ① reads balance: 100
                                  ② writes balance: 50
  ③ writes balance: 70            the 50 were never withdrawn",
        fixes:
            "\
- Hold the lock from the read to the write.
- Read again after taking the lock the second time, and work from that.
- Use one atomic operation: fetch_add, or compare_exchange in a loop that starts from what it read.",
        harmless: "\
When losing the update does not matter, for instance a counter of statistics that may be a little
off. Say so in a suppression, with the reason.",
    },
    Explanation {
        code: "intermediate-state",
        title: "another thread saw the state between two writes",
        meaning: "\
A function wrote a variable twice, and another thread read it in between: a state that nobody was
meant to see.",
        example: "  rebuild()                       lookup()
  ① writes table: empty
                                  ② reads table: empty
  ③ writes table: complete        found nothing, though it is there",
        fixes: "\
- Hold the lock over both writes.
- Build the new value aside and publish it in one write.",
        harmless: "When the state in between is a valid answer too, such as a progress indicator.",
    },
    Explanation {
        code: "overwritten",
        title: "own write was overwritten in the middle",
        meaning: "\
A function wrote a variable and then read or wrote it again as if it were alone, but another thread
had written it in between.",
        example: "  drop_reference()                drop_reference()
  ① updates count: 2 → 1
                                  ② updates count: 1 → 0
  ③ reads count: 0, frees         also frees",
        fixes: "\
- Use the result of the first operation (`fetch_sub` returns it) instead of reading again.
- Hold the lock from the write to the second access.",
        harmless: "When the function only wants the newest value and does not rely on its own.",
    },
    Explanation {
        code: "non-repeatable-read",
        title: "two reads of one function disagree",
        meaning: "\
A function read the same variable twice, and another thread wrote it in between. What the function
decided after the first read may not hold at the second.",
        example: "  append()                        set_length(0)
  ① reads length: 8, makes room
                                  ② writes length: 0
  ③ reads length: 0, copies       past the end, or nothing",
        fixes: "\
- Hold the lock over both reads.
- Read once, and use that value.",
        harmless: "\
When the function looks, does not find, takes the lock and looks again before it acts: the second
look is there because the first may be out of date. That is why this finding has medium rank.",
    },
    Explanation {
        code: "inconsistent-pair",
        title: "another thread ran between two steps that belong together",
        meaning: "\
A function touched two things, two variables or a variable and a lock, and another thread came
after its first step and before its second. So the function can have seen one of them from before
the other thread and one from after.",
        example: "  total()                         transfer(10)
  ① reads checking: 100
                                  ② writes checking: 90
                                  ③ writes savings: 110
  ④ reads savings: 110            the total is 210, not 200",
        fixes: "\
- Protect what belongs together by one lock, and hold it over both steps.
- With two locks, take both before the first access, always in the same order.",
        harmless: "\
When the two have nothing to do with each other, or the function looks again under the second lock
before it acts.",
    },
    Explanation {
        code: "cycle",
        title: "must come both before and after itself",
        meaning: "\
Three or more executions of functions depend on each other in a circle. No order of running them
one after the other gives what was seen, and the first one of the finding is not atomic.",
        example: "  f()               g()               h()
  ① writes x
                    ② reads x
                    ③ writes y
                                      ④ reads y
                                      ⑤ writes z
  ⑥ reads z",
        fixes: "\
- Hold one lock over the two steps of the first function.
- If the function is not meant to be atomic, say so: `!name` in a specification.",
        harmless: "When nobody relies on the function being atomic, as with a loop that serves requests.",
    },
    Explanation {
        code: "not-serializable",
        title: "must come both before and after another transaction",
        meaning: "\
As in a cycle, but the engine that found it keeps only the step that closes the circle. Another
engine (`--engine velodrome`) shows all of it.",
        example: "  f()                             g()
  ① uses x
                                  ② uses x, then y
  ③ uses y                        f is before g, and after g",
        fixes: "- Hold one lock over all of the function, or over what belongs together in it.",
        harmless: "When nobody relies on the function being atomic.",
    },
    Explanation {
        code: "not-reducible",
        title: "another thread can run between its steps",
        meaning: "\
Lipton's reduction proves a function atomic if it is first only taking locks and using what they
protect, then does one free step, then only lets locks go. This function does something after that
which is not allowed there, such as taking another lock or using data that no lock protects. So it
cannot be proven atomic; that is not yet a proof that it goes wrong.",
        example: "  withdraw()
  ① takes lock
     reads balance
  ② lets go of lock               committed here
  ③ takes lock                    not allowed here: others can run before it",
        fixes: "\
- One critical section instead of two.
- Protect the data that is used without a lock.",
        harmless: "\
When the protocol is right for another reason than locks: hand-made synchronisation, data that is
written only once. The engines for observed violations say whether it has happened.",
    },
    Explanation {
        code: "missing-yield",
        title: "another thread interferes where there is no yield",
        meaning: "\
In cooperative code other threads interfere only where the code says `yield`. Here another thread
interferes and there is no yield, so a reader of the code does not see it coming.",
        example: "  producer()                      consumer()
  ① writes item
                                  ② reads item
  ③ writes item                   interference between ① and ③, without a yield",
        fixes: "\
- If others may interfere here, write a yield: `atomsan check --engine silver` infers them.
- If not, hold the lock.",
        harmless: "Always, in the sense that nothing is broken: it is documentation that is missing.",
    },
    Explanation {
        code: "conflict-serializability",
        title: "criterion: equivalent to running alone, by conflicts",
        meaning: "\
Two steps conflict if they touch the same thing and one of them writes. An execution is conflict
serializable if swapping neighbouring steps that do not conflict can make each transaction run in
one piece. A violation of it happened in this execution: the finding is never a guess.",
        example:
            "  f: read x · g: write x · f: write x      f cannot be moved together: not serializable
  f: read x · g: write y · f: write x      g can move out of the way: serializable",
        fixes: "See the anomaly of the finding: it says what kind of violation it is.",
        harmless: "See the anomaly.",
    },
    Explanation {
        code: "view-serializability",
        title: "criterion: everybody reads what a serial order gives",
        meaning: "\
An execution is view serializable if there is an order of whole transactions in which every read
sees the same write and the last writes are the same. Findings of this criterion are predicted:
another schedule of the same program, with the same synchronisation, is not view serializable.",
        example: "  recorded:   f: read x, write x · g: write x
  predicted:  f: read x · g: write x · f: write x      no lock forbids it",
        fixes: "See the anomaly of the finding.",
        harmless: "\
When the schedule is impossible for a reason that the trace does not show, such as a flag that both
threads look at.",
    },
    Explanation {
        code: "reducibility",
        title: "criterion: right-movers, one step, left-movers",
        meaning: "\
A sufficient condition for atomicity by Lipton: taking a lock can move later (right-mover), letting
it go can move earlier (left-mover), protected accesses can move both ways, and only one step may
do neither.",
        example: "  acquire · read · write · release      R B B L: atomic\n  acquire · release · acquire · release  R L R L: a right-mover after a left-mover",
        fixes: "See not-reducible.",
        harmless: "It is a sufficient condition, not a necessary one.",
    },
    Explanation {
        code: "cooperability",
        title: "criterion: interference only at yields",
        meaning: "\
A program is cooperable if it behaves as if threads were switched only at its yields. Code between
two yields can be read as if it were sequential.",
        example: "  acquire · update · release · yield · acquire · update · release",
        fixes: "See missing-yield.",
        harmless: "See missing-yield.",
    },
    Explanation {
        code: "atomic-set-serializability",
        title: "criterion: serializable for each set of variables that belong together",
        meaning: "\
Variables that belong together are declared as an atomic set (`--sets`), and functions that keep
them consistent are its units of work. Only what touches the set counts, so a function may be
interrupted in between as long as the set does not notice.",
        example: "  set {lower, upper}
  shift()                         width()
  ① writes lower
                                  ② reads lower, upper
  ③ writes upper                  saw the pair half-done",
        fixes: "- One critical section for all accesses to the set in one unit of work.",
        harmless: "When the variables do not belong together: correct the declaration.",
    },
];

/// The explanation of a code.
pub fn find(code: &str) -> Option<&'static Explanation> {
    ALL.iter().find(|one| one.code == code)
}

/// The code that was probably meant.
pub fn nearest(code: &str) -> Option<&'static str> {
    let wanted = code.to_lowercase().replace(['_', ' '], "-");
    let distance = |one: &&Explanation| {
        let inside = wanted.len() > 3 && one.code.contains(&wanted);
        if inside { 0 } else { edits(&wanted, one.code) }
    };
    let nearest = ALL.iter().min_by_key(distance)?;
    (distance(&nearest) <= 1 + wanted.len() / 3).then_some(nearest.code)
}

/// How many letters must be typed, deleted or changed to get from one word to the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}\n", self.code, self.title)?;
        writeln!(f, "{}\n", self.meaning)?;
        writeln!(f, "Example, time downwards:\n\n{}\n", self.example)?;
        writeln!(f, "What to do:\n\n{}\n", self.fixes)?;
        writeln!(f, "When it is harmless:\n\n{}", self.harmless)
    }
}

/// All codes with their titles.
pub fn list() -> String {
    let width = ALL.iter().map(|one| one.code.len()).max().unwrap_or(0);
    let lines = ALL
        .iter()
        .map(|one| format!("{:width$}  {}\n", one.code, one.title));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;
    use atomsan_trace::finding::{Anomaly, Criterion};

    #[test]
    fn everything_that_findings_say_is_explained() {
        use Anomaly::*;
        let anomalies = [
            LostUpdate,
            IntermediateState,
            Overwritten,
            NonRepeatableRead,
            InconsistentPair,
            Cycle(3),
            NotSerializable,
            NotReducible,
            MissingYield,
        ];
        let criteria = [
            Criterion::ConflictSerializability,
            Criterion::ViewSerializability,
            Criterion::Reducibility,
            Criterion::Cooperability,
            Criterion::AtomicSetSerializability,
        ];
        let codes = anomalies.map(words::code).into_iter();
        let codes: Vec<&str> = codes.chain(criteria.map(words::criterion)).collect();
        assert_eq!(codes, ALL.iter().map(|one| one.code).collect::<Vec<_>>());
    }

    #[test]
    fn explanations_fit_a_terminal() {
        for one in ALL {
            let long = one
                .to_string()
                .lines()
                .find(|line| line.chars().count() > 100)
                .map(str::to_owned);
            assert_eq!(long, None, "{}", one.code);
        }
    }

    #[test]
    fn a_misspelt_code_is_recognised() {
        for (given, meant) in [
            ("lost_update", Some("lost-update")),
            ("lostupdate", Some("lost-update")),
            ("repeatable", Some("non-repeatable-read")),
            ("Inconsistant-Pair", Some("inconsistent-pair")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(given), meant, "{given}");
        }
    }
}
