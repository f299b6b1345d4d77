//! The block `generation`, with which templates mark what the assistant says, so that training can tell it apart.
//!
//! transformers renders its contents as they are, in a scope of their own. Jinja has no such block, so its tags are
//! replaced by those of one that does the same, `with` without variables.

/// The template with every tag of the block replaced; text between `raw` and `endraw` stays.
pub(super) fn replaced(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut raw = false;
    while let Some(at) = rest.find("{%") {
        let Some(end) = rest[at..].find("%}").map(|end| at + end) else { break };
        let inner = &rest[at + 2..end];
        let word = inner.trim_matches(['-', '+']).trim();
        out.push_str(&rest[..at + 2]);
        let new = match word {
            "generation" if !raw => Some("with"),
            "endgeneration" if !raw => Some("endwith"),
            _ => None,
        };
        match new {
            Some(new) => out.push_str(&inner.replacen(word, new, 1)),
            None => out.push_str(inner),
        }
        raw = if raw { word != "endraw" } else { word == "raw" };
        out.push_str("%}");
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_keep_their_marks_and_raw_text_its_own() {
        for (template, expected) in [
            ("a{% generation %}b{% endgeneration %}", "a{% with %}b{% endwith %}"),
            ("{%- generation -%} {%+endgeneration+%}", "{%- with -%} {%+endwith+%}"),
            (
                "{% raw %}{% generation %}{% endraw %}{% generation %}",
                "{% raw %}{% generation %}{% endraw %}{% with %}",
            ),
            ("{% set generation = 1 %}{% if generation %}", "{% set generation = 1 %}{% if generation %}"),
            ("{% generation", "{% generation"),
        ] {
            assert_eq!(replaced(template), expected);
        }
    }
}
