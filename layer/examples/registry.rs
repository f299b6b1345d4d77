//! Brings `registry/commands.txt` up to a newer vk.xml: `cargo run -p zinc-barrier --example registry -- VK_XML [ORIGIN]`;
//! with `--check VK_XML` it only says which commands the table lacks, and exits with 1 where there are any.
//!
//! Commands that the table had keep their words; new ones get a `?`, which the tests refuse until a person has replaced
//! it. vk.xml comes with Vulkan's headers; Debian's are in the package libvulkan-dev, at
//! `/usr/share/vulkan/registry/vk.xml`. ORIGIN is written into the head of the table.

#[path = "../tests/vk_xml/mod.rs"]
mod vk_xml;

use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (xml, origin, check) = match &arguments[..] {
        [flag, xml] if flag == "--check" => (xml, xml.as_str(), true),
        [xml] if !xml.starts_with('-') => (xml, xml.as_str(), false),
        [xml, origin] if !xml.starts_with('-') => (xml, origin.as_str(), false),
        _ => bail!("usage: registry VK_XML [ORIGIN], or registry --check VK_XML"),
    };
    let text = std::fs::read_to_string(xml).with_context(|| format!("cannot read {xml}"))?;
    let registry = vk_xml::read(&text).map_err(|e| anyhow::anyhow!("{xml}: {e}"))?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry/commands.txt");
    let old = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let words: HashMap<&str, &str> =
        old.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(' ')).collect();
    if check {
        let missing: Vec<&String> =
            registry.commands.iter().filter(|n| !words.contains_key(n.as_str())).collect();
        if !missing.is_empty() {
            bail!(
                "vk.xml {} has {} commands that the table lacks: {missing:?}. Run this without --check, replace each '?' in \
                 layer/registry/commands.txt by a word (layer/src/registry.rs lists them), and model what needs it",
                registry.version,
                missing.len()
            );
        }
        println!("vk.xml {}: the table has all {} commands", registry.version, registry.commands.len());
        return Ok(());
    }
    let mut new = format!(
        "# Commands of Vulkan and what the layer does about them: see layer/src/registry.rs.\n\
         # Written by: cargo run -p zinc-barrier --example registry -- VK_XML\n\
         # From: vk.xml {} ({origin})\n",
        registry.version
    );
    // A command that is gone from vk.xml may still be asked for by an old application.
    let mut names: Vec<&str> =
        registry.commands.iter().map(String::as_str).chain(words.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    for name in &names {
        new.push_str(&format!("{name} {}\n", words.get(name).unwrap_or(&"?")));
    }
    std::fs::write(&path, new).with_context(|| format!("cannot write {}", path.display()))?;
    let fresh = names.iter().filter(|n| !words.contains_key(*n)).count();
    println!("vk.xml {}: {} commands, {fresh} of them new", registry.version, names.len());
    Ok(())
}
