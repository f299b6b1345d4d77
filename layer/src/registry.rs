//! What the layer does about each command that Vulkan has.
//!
//! `registry/commands.txt` lists every `vkCmd*` of vk.xml and every other function of devices, queues and command buffers,
//! each with one word that a person has put there:
//!
//! | word | the command |
//! | --- | --- |
//! | `hook` | has a function of its own in the layer |
//! | `flush` | may touch memory, or order it: whatever waits is emitted before it |
//! | `begin-rendering`, `end-rendering` | as `flush`, and rendering begins or ends |
//! | `begin-conditional`, `end-conditional` | as `flush`; in between, each dispatch also reads the predicate |
//! | `taint` | binds compute state in a way that the layer does not follow, and touches no memory |
//! | `harmless` | touches neither memory nor compute state; gets no stub |
//! | `apart` | is none that is recorded, and nothing that the layer keeps records of depends on it |
//!
//! A command that is not in the table is newer than it, and is taken to touch everything, to bind anything and to begin
//! anything. Any other function that is not in it may write descriptors: once it was called, no set of the device is
//! believed. The tests fail when a vk.xml
//! has a command that the table lacks, so that somebody looks at it.

use crate::stubs::Effect;
use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../registry/commands.txt");

/// Name and word of each command in the table.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

/// What the word for a recorded command stands for; `None` for a command that needs no stub.
fn meaning(word: &str) -> Option<Effect> {
    match word {
        "harmless" => None,
        "taint" => Some(Effect::Taint),
        "begin-rendering" => Some(Effect::BeginRendering),
        "end-rendering" => Some(Effect::EndRendering),
        "begin-conditional" => Some(Effect::BeginConditional),
        "end-conditional" => Some(Effect::EndConditional),
        "hook" | "flush" => Some(Effect::Flush),
        _ => Some(Effect::Unheard),
    }
}

/// The word of a function; `None` for one that is newer than the table.
fn word(name: &str) -> Option<&'static str> {
    static KNOWN: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    KNOWN.get_or_init(|| rows().collect()).get(name).copied()
}

/// The effect of the recorded command called `name`; `None` when it needs no stub.
pub fn effect(name: &str) -> Option<Effect> {
    meaning(word(name).unwrap_or_default())
}

/// Returns true if the table lacks this function, which is a device's and is not recorded.
pub fn is_unheard(name: &str) -> bool {
    name.starts_with("vk") && !name.starts_with("vkCmd") && word(name).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    const RECORDED: [&str; 8] = [
        "hook",
        "flush",
        "begin-rendering",
        "end-rendering",
        "begin-conditional",
        "end-conditional",
        "taint",
        "harmless",
    ];

    #[test]
    fn every_command_has_a_word_and_those_with_a_hook_have_one() {
        let mut count = 0;
        for (name, word) in rows() {
            count += 1;
            let words: &[&str] = if name.starts_with("vkCmd") { &RECORDED } else { &["hook", "apart"] };
            assert!(words.contains(&word), "{name}: '{word}' is none of {words:?}");
            let c_name = CString::new(name).unwrap();
            assert_eq!(crate::hooks::find(&c_name).is_some(), word == "hook", "{name} is '{word}'");
        }
        assert!(count > 700, "{count} commands");
        assert!(rows().map(|r| r.0).is_sorted(), "sorted, so that differences can be read");
    }

    #[test]
    fn what_the_table_lacks_may_be_anything() {
        assert_eq!(effect("vkCmdOfTheYear2031KHR"), Some(Effect::Unheard));
        assert!(is_unheard("vkUpdateDescriptorSetsOfTheYear2031KHR"));
        assert!(!is_unheard("vkGetDescriptorSetLayoutSizeEXT") && !is_unheard("vkCmdOfTheYear2031KHR"));
        assert_eq!(effect("vkCmdSetEvent2"), Some(Effect::Flush), "an event orders memory");
        assert_eq!(
            effect("vkCmdEndTransformFeedbackEXT"),
            Some(Effect::Flush),
            "vk.xml says state, but it writes"
        );
        assert_eq!(effect("vkCmdSetDeviceMask"), Some(Effect::Flush), "it decides where dispatches run");
        assert_eq!(effect("vkCmdBeginRenderPass2KHR"), Some(Effect::BeginRendering));
        assert_eq!(effect("vkCmdEndRendering"), Some(Effect::EndRendering));
        assert_eq!(effect("vkCmdBindShadersEXT"), Some(Effect::Taint));
        assert_eq!(effect("vkCmdSetViewport"), None);
    }
}
