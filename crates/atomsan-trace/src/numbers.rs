//! Numbers as people write them.

/// With separators: 9,778,716.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (9_778_716, "9,778,716"),
        ] {
            assert_eq!(super::grouped(number), text);
        }
    }
}
