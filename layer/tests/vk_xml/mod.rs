//! Commands of a vk.xml, as far as `registry/commands.txt` lists them.

use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeSet, HashMap};

/// What a vk.xml says.
pub struct Registry {
    /// Its version, `1.4.363` say.
    pub version: String,
    /// The commands of devices, queues and command buffers, sorted.
    pub commands: BTreeSet<String>,
}

fn child<'a>(node: Node<'a, 'a>, tag: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|c| c.has_tag_name(tag))
}

fn is_vulkan(list: &str) -> bool {
    list.split(',').any(|api| api == "vulkan" || api == "vulkanbase")
}

/// Reads a vk.xml.
///
/// # Errors
///
/// A text that says what is wrong with it.
pub fn read(text: &str) -> Result<Registry, String> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| format!("no XML: {e}"))?;
    let root = document.root_element();
    // Name to the type of the first parameter; aliases to their target.
    let (mut owners, mut aliases) = (HashMap::new(), HashMap::new());
    let commands = child(root, "commands").ok_or("no <commands>: is it a vk.xml?")?;
    for command in commands.children().filter(|c| c.has_tag_name("command")) {
        if let (Some(name), Some(target)) = (command.attribute("name"), command.attribute("alias")) {
            aliases.insert(name, target);
        } else if command.attribute("api") != Some("vulkansc") {
            let of = |tag, inner| child(command, tag).and_then(|n| child(n, inner)).and_then(|n| n.text());
            if let (Some(name), Some(owner)) = (of("proto", "name"), of("param", "type")) {
                owners.insert(name, owner);
            }
        }
    }
    let mut listed = BTreeSet::new();
    for part in root.descendants().filter(|n| n.has_tag_name("feature") || n.has_tag_name("extension")) {
        let api = part.attribute("supported").or(part.attribute("api")).unwrap_or_default();
        if !is_vulkan(api) {
            continue;
        }
        let required = part.children().filter(|c| c.has_tag_name("require"));
        for command in required.flat_map(|r| r.children()).filter(|c| c.has_tag_name("command")) {
            let Some(name) = command.attribute("name") else { continue };
            let mut target = name;
            while let Some(next) = aliases.get(target) {
                target = next;
            }
            let Some(owner) = owners.get(target) else { continue };
            if name.starts_with("vkCmd") || matches!(*owner, "VkDevice" | "VkQueue" | "VkCommandBuffer") {
                listed.insert(name.to_string());
            }
        }
    }
    // What stands behind a name in its line: "22", or "VK_MAKE_API_VERSION(0, 1, 4, VK_HEADER_VERSION)", with or without
    // elements around the words.
    let numbers = |name: &str| -> Option<Vec<&str>> {
        let at = text.find(&format!("<name>{name}</name>"))? + "<name></name>".len() + name.len();
        let line = text[at..].lines().next()?;
        Some(line.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).collect())
    };
    let complete = || {
        // The variant comes first; where it is no number, this is a file of another API's.
        let numbers = numbers("VK_HEADER_VERSION_COMPLETE")?;
        Some(format!("{}.{}", numbers.get(1)?, numbers.get(2)?))
    };
    let patch = || numbers("VK_HEADER_VERSION")?.first().map(ToString::to_string);
    let version = complete().zip(patch()).map(|(major, patch)| format!("{major}.{patch}"));
    Ok(Registry { version: version.ok_or("no VK_HEADER_VERSION in it")?, commands: listed })
}
