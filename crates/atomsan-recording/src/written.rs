//! Rust functions as they are written, not as they were compiled.
//!
//! One generic function is compiled many times, and with the newer mangling each has a name of its own,
//! `<bank::Account<u64>>::withdraw::<bank::main::{closure#0}>`, while the older one says
//! `bank::Account<T>::withdraw`. A mistake is made where it is written: in `bank::Account::withdraw`,
//! once. So what is between `<` and `>` is left out, but for `<Account as Bank>::withdraw`, and closures have
//! no numbers.
//!
//! Names of C++ have lists of arguments, and stay as they are: there it is common that only one of several is wrong.

use std::borrow::Cow;

/// The name of a function without its generic arguments.
pub(crate) fn written(name: &str) -> Cow<'_, str> {
    if !name.contains(['<', '#']) {
        return name.into();
    }
    plain(name).map_or(name.into(), Cow::Owned)
}

fn plain(name: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if let Some((closure, after)) = numbered(rest) {
            text.push_str(closure);
            rest = after;
        } else if next == '<' {
            let (inside, after) = enclosed(rest)?;
            match separated(inside) {
                _ if !text.is_empty() => text.truncate(text.trim_end_matches("::").len()),
                Some((own, of)) => text = format!("<{} as {}>", plain(own)?, plain(of)?),
                None => text = plain(inside)?,
            }
            rest = after;
        } else if next == '(' && !text.is_empty() {
            return None;
        } else {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(text)
}

/// A closure in front of something, as the older mangling has it.
fn numbered(text: &str) -> Option<(&'static str, &str)> {
    let rest = text.strip_prefix("{closure#")?;
    let (number, after) = rest.split_once('}')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(("{{closure}}", after))
}

/// What is between a `<` and its `>`, and what is behind it.
fn enclosed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if text[..at].ends_with('-') => {}
            b'>' if depth == 1 => return Some((&text[1..at], &text[at + 1..])),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The two sides of an ` as ` that is in no further `<` and `>`.
fn separated(inside: &str) -> Option<(&str, &str)> {
    inside.match_indices(" as ").find_map(|(at, word)| {
        let (own, of) = (&inside[..at], &inside[at + word.len()..]);
        let count = |byte| own.bytes().filter(|&other| other == byte).count();
        let arrows = own.matches("->").count();
        (count(b'<') + arrows == count(b'>')).then_some((own, of))
    })
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn generic_arguments_are_left_out() {
        for (name, expected) in [
            ("bank::withdraw", "bank::withdraw"),
            ("bank::withdraw::<u64>", "bank::withdraw"),
            (
                "<bank::Account<u64>>::withdraw::<bank::main::{closure#0}>",
                "bank::Account::withdraw",
            ),
            ("bank::Account<T>::withdraw", "bank::Account::withdraw"),
            (
                "<bank::Account<u64> as bank::Bank<fn(&u64) -> bool>>::go",
                "<bank::Account as bank::Bank>::go",
            ),
            (
                "<bank::Account<T>>::withdraw::<T>::{closure#12}::{closure#0}",
                "bank::Account::withdraw::{{closure}}::{{closure}}",
            ),
            (
                "<<a::B<C> as d::E>::F as g::H<I>>::go",
                "<<a::B as d::E>::F as g::H>::go",
            ),
            ("<[T] as Sum>::of", "<[T] as Sum>::of"),
            ("<(A<B>, C) as Sum>::of", "<(A, C) as Sum>::of"),
            (
                "core::ops::function::impls::<impl core::ops::function::FnMut<A> for &F>::call_mut",
                "core::ops::function::impls::call_mut",
            ),
            (
                "void ns::f<int>(std::vector<int>&) const",
                "void ns::f<int>(std::vector<int>&) const",
            ),
            ("ns::operator<(A, B)", "ns::operator<(A, B)"),
            ("Account<int>::withdraw(int)", "Account<int>::withdraw(int)"),
            ("a <", "a <"),
        ] {
            assert_eq!(written(name), expected);
        }
    }
}
