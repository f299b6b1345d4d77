//! The reading of a vk.xml, and what of it the table of commands lacks. Whether a vk.xml of one's own has commands that the table
//! lacks is a question for `cargo run -p zinc-barrier --example registry -- --check VK_XML`: tests read no file of the
//! system's.

mod vk_xml;

use std::collections::BTreeSet;

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

/// Ways to write the version, of headers from 2021 to 2026.
const COMPLETE: [&str; 3] = [
    "<type>#define <name>VK_HEADER_VERSION_COMPLETE</name> (0, 1, 5, VK_HEADER_VERSION)</type>",
    "<type>#define <name>VK_HEADER_VERSION_COMPLETE</name> <type>VK_MAKE_API_VERSION</type>(0, 1, 5, VK_HEADER_VERSION)</type>",
    "<type requires=\"VK_HEADER_VERSION\">// Complete version of this file\n#define \
     <name>VK_HEADER_VERSION_COMPLETE</name> <type>VK_MAKE_API_VERSION</type>(0, 1, 5, VK_HEADER_VERSION)</type>\n",
];

/// A vk.xml of a few lines.
fn small(command: &str) -> String {
    with_version(command, COMPLETE[0])
}

fn with_version(command: &str, complete: &str) -> String {
    format!(
        "<registry><types><type><name>VK_HEADER_VERSION</name> 400</type>\
         {complete}</types>\
         <commands><command><proto><type>void</type> <name>{command}</name></proto>\
         <param><type>VkCommandBuffer</type> <name>b</name></param></command>\
         <command><proto><name>vkGetThing</name></proto><param><type>VkDevice</type></param></command>\
         <command><proto><name>vkGetKind</name></proto><param><type>VkPhysicalDevice</type></param></command>\
         <command name=\"vkCmdDispatchKHR\" alias=\"vkCmdDispatch\"/></commands>\
         <feature api=\"vulkan,vulkansc\"><require><command name=\"{command}\"/><command name=\"vkGetThing\"/>\
         <command name=\"vkGetKind\"/>\
         </require></feature><extensions><extension supported=\"disabled\"><require>\
         <command name=\"vkCmdNever\"/></require></extension></extensions></registry>"
    )
}

#[test]
fn a_command_from_the_future_is_noticed() {
    let registry = vk_xml::read(&small("vkCmdReadMinds")).unwrap();
    // A device's function, too, but not one of a physical device.
    let missing = vec!["vkCmdReadMinds", "vkGetThing"];
    assert_eq!((overlooked(&registry), &registry.version[..]), (missing, "1.5.400"));
    assert_eq!(overlooked(&vk_xml::read(&small("vkCmdDispatch")).unwrap()), ["vkGetThing"]);
    for complete in COMPLETE {
        assert_eq!(vk_xml::read(&with_version("vkCmdDispatch", complete)).unwrap().version, "1.5.400");
    }
    assert!(vk_xml::read("<registry/>").is_err_and(|e| e.contains("vk.xml")));
}
