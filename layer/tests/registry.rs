//! No command of Vulkan is overlooked: `registry/commands.txt` has all of the newest vk.xml that can be found.

mod vk_xml;

use std::collections::BTreeSet;
use std::path::PathBuf;

const TABLE: &str = include_str!("../registry/commands.txt");

fn known() -> BTreeSet<&'static str> {
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_once(' '))
        .map(|(name, _)| name)
        .collect()
}

/// Commands of a registry that the table lacks.
fn overlooked(registry: &vk_xml::Registry) -> Vec<&str> {
    let known = known();
    registry.commands.iter().map(String::as_str).filter(|name| !known.contains(name)).collect()
}

/// Every vk.xml of this machine: the one that is named, the system's, the one that came with the oracles.
fn places() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let mut places: Vec<PathBuf> =
        std::env::var_os("ZINC_BARRIER_VK_XML").map(PathBuf::from).into_iter().collect();
    let rest = "usr/share/vulkan/registry/vk.xml";
    places.push(PathBuf::from("/").join(rest));
    places.extend(cache.map(|c| c.join("zinc-barrier/oracles/sid").join(rest)));
    places.retain(|p| p.is_file());
    places
}

#[test]
fn no_command_of_any_vk_xml_at_hand_is_overlooked() {
    for place in places() {
        let text = std::fs::read_to_string(&place).unwrap();
        let registry = vk_xml::read(&text).unwrap_or_else(|e| panic!("{}: {e}", place.display()));
        assert!(registry.commands.len() > 300, "{}: {} commands", place.display(), registry.commands.len());
        println!("{}: vk.xml {}", place.display(), registry.version);
        let missing = overlooked(&registry);
        assert!(
            missing.is_empty(),
            "vk.xml {} ({}) has commands that nobody has looked at: {missing:?}. Run cargo run -p zinc-barrier --example \
             registry -- {}, replace each '?' in layer/registry/commands.txt by a word (layer/src/registry.rs says which), \
             and model what needs modelling",
            registry.version,
            place.display(),
            place.display()
        );
    }
}

/// A vk.xml of a few lines.
fn small(command: &str) -> String {
    format!(
        "<registry><types><type><name>VK_HEADER_VERSION</name> 400</type>\
         <type>#define <name>VK_HEADER_VERSION_COMPLETE</name> (0, 1, 5, VK_HEADER_VERSION)</type></types>\
         <commands><command><proto><type>void</type> <name>{command}</name></proto>\
         <param><type>VkCommandBuffer</type> <name>b</name></param></command>\
         <command><proto><name>vkGetThing</name></proto><param><type>VkDevice</type></param></command>\
         <command name=\"vkCmdDispatchKHR\" alias=\"vkCmdDispatch\"/></commands>\
         <feature api=\"vulkan,vulkansc\"><require><command name=\"{command}\"/><command name=\"vkGetThing\"/>\
         </require></feature><extensions><extension supported=\"disabled\"><require>\
         <command name=\"vkCmdNever\"/></require></extension></extensions></registry>"
    )
}

#[test]
fn a_command_from_the_future_is_noticed() {
    let registry = vk_xml::read(&small("vkCmdReadMinds")).unwrap();
    assert_eq!((overlooked(&registry), &registry.version[..]), (vec!["vkCmdReadMinds"], "1.5.400"));
    assert_eq!(overlooked(&vk_xml::read(&small("vkCmdDispatch")).unwrap()), Vec::<&str>::new());
    assert!(vk_xml::read("<registry/>").is_err_and(|e| e.contains("vk.xml")));
}
