//! The attributes of the crate `atomsan`, which re-exports and documents them.
//!
//! Both put one statement in front of a function's body. All that is needed for that is the
//! function's name, which follows `fn`, and its body, which is the last group in braces; whether
//! the program is checked is decided in the crate `atomsan`, because this one is built for the
//! compiler and not for the program.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// The function is a region that should be atomic.
#[proc_macro_attribute]
pub fn atomic(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let label = arguments.into_iter().next();
    with_statement(function, |name| {
        let name = match label {
            Some(label) => label.to_string(),
            None => format!("concat!(module_path!(), \"::\", {name:?})"),
        };
        format!("let __atomsan_region = ::atomsan::Region::begin({name});")
    })
}

/// The function is not expected to be atomic.
#[proc_macro_attribute]
pub fn not_atomic(arguments: TokenStream, function: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return error("`#[not_atomic]` takes no arguments");
    }
    with_statement(function, |_| "::atomsan::not_atomic();".to_owned())
}

/// The function with a statement, made from its name, in front of its body.
fn with_statement(function: TokenStream, statement: impl FnOnce(&str) -> String) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let word = |token: &TokenTree| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    };
    let Some(at) = tokens
        .iter()
        .position(|token| word(token).as_deref() == Some("fn"))
    else {
        return error("this is not a function");
    };
    for modifier in tokens[..at].iter().filter_map(word) {
        match modifier.as_str() {
            "async" => {
                return error(
                    "an async function runs on many threads, one piece after the other; mark what is between two awaits",
                );
            }
            "const" => return error("a const function cannot be marked"),
            _ => {}
        }
    }
    let Some(name) = tokens.get(at + 1).and_then(word) else {
        return error("this function has no name");
    };
    let Some(TokenTree::Group(body)) = tokens.last() else {
        return error("this function has no body");
    };
    if body.delimiter() != Delimiter::Brace {
        return error("this function has no body");
    }
    let Ok(mut inner) = statement(&name).parse::<TokenStream>() else {
        return error("expected a string, the name of the region");
    };
    let span = body.span();
    // The body stays a block of its own, so that its locals die before the region ends.
    inner.extend([TokenTree::Group(body.clone())]);
    let mut outer = Group::new(Delimiter::Brace, inner);
    outer.set_span(span);
    tokens.pop();
    tokens.push(TokenTree::Group(outer));
    tokens.into_iter().collect()
}

fn error(message: &str) -> TokenStream {
    format!("::core::compile_error!({message:?});")
        .parse()
        .unwrap_or_default()
}
