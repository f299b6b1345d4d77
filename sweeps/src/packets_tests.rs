//! Numbers are taken from the counter only where it missed nothing.

use zinc_packets_core::report::{BarrierMask, CacheOp, Device, Packets};

use super::*;

fn amd() -> Device {
    let op = |event: Option<&str>, value: &str, count| CacheOp {
        packet: if event.is_some() { "RELEASE_MEM" } else { "ACQUIRE_MEM" }.into(),
        event: event.map(Into::into),
        register: "GCR_CNTL".into(),
        value: value.into(),
        bits: vec!["GL2_WB".into()],
        pws: false,
        count,
    };
    let pm4 = Pm4 {
        dispatches: 8,
        dispatches_indirect: 1,
        cs_partial_flushes: 7,
        acquires: 9,
        releases: 1,
        cache_ops: vec![op(None, "0xc180", 7), op(None, "0xc000", 2), op(Some("EOP"), "0x0", 1)],
        ..Pm4::default()
    };
    let total = Packets { pm4: Some(pm4), ..Packets::default() };
    Device { driver: "amdgpu".into(), submits: 2, total, ..Device::default() }
}

fn apple() -> Device {
    let mask = BarrierMask { mask: "0x000fffff".into(), bits: vec!["BIT_0".into()], count: 8 };
    let cdm =
        Cdm { launches: 8, barriers: 8, barrier_masks: vec![mask], links: 7, streams: 1, ..Cdm::default() };
    let total = Packets { cdm: Some(cdm), ..Packets::default() };
    Device { driver: "asahi".into(), submits: 1, total, ..Device::default() }
}

fn report(interposed_first: bool, devices: Vec<Device>) -> String {
    serde_json::to_string(&Report { schema: SCHEMA, interposed_first, devices }).unwrap()
}

#[test]
fn a_counter_is_taken_from_where_it_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("c.so"), folder.path().join("a b.so"));
    assert!(library(Some(&good)).unwrap_err().to_string().contains("zinc-packets"));
    std::fs::write(&good, "").unwrap();
    std::fs::write(&bad, "").unwrap();
    assert_eq!(library(Some(&good)).unwrap(), Some(good));
    assert!(library(Some(&bad)).unwrap_err().to_string().contains("space"));
    assert_eq!(library(Some(Path::new("off"))).unwrap(), None);
}

#[test]
fn what_either_hardware_was_handed_is_counted_under_the_same_names() {
    let of = |devices| read(&report(true, devices)).unwrap();
    let counts = of(vec![amd()]);
    assert_eq!((counts[&Count::Dispatches], counts[&Count::Flushes]), (9, 7));
    assert_eq!((counts[&Count::Acquires], counts[&Count::Releases], counts[&Count::Submits]), (9, 1, 2));
    assert!(!counts.contains_key(&Count::Links), "what the hardware has not is absent, not zero");
    let counts = of(vec![apple()]);
    assert_eq!((counts[&Count::Dispatches], counts[&Count::Flushes], counts[&Count::Links]), (8, 8, 7));
    assert_eq!(of(vec![amd(), apple()])[&Count::Flushes], 15);
}

#[test]
fn packets_that_act_on_caches_are_told_apart_by_what_they_ask() {
    let counts = read(&report(true, vec![amd(), amd()])).unwrap();
    let sorts: Vec<(String, u64)> = counts
        .iter()
        .filter_map(|(count, n)| match count {
            Count::Cache(c) => Some((format!("{} {} {}", c.packet, c.field, c.value), *n)),
            _ => None,
        })
        .collect();
    let expected = [
        ("ACQUIRE_MEM GCR_CNTL 0xc000", 4),
        ("ACQUIRE_MEM GCR_CNTL 0xc180", 14),
        ("RELEASE_MEM EOP GCR_CNTL 0x0", 2),
    ];
    assert_eq!(sorts, expected.map(|(name, n)| (name.to_string(), n)));
}

#[test]
fn what_the_counter_missed_is_no_count() {
    assert!(read(&report(false, vec![amd()])).unwrap_err().contains("before it"));
    assert!(read(&report(true, vec![])).unwrap_err().contains("no submission"));
    let mut broken = vec![Device { unreadable_submits: 1, ..amd() }];
    let spoils: [fn(&mut Pm4); 3] = [|p| p.truncated = 1, |p| p.unreadable = 1, |p| p.limited = 1];
    for spoil in spoils {
        let mut device = amd();
        spoil(device.total.pm4.as_mut().unwrap());
        broken.push(device);
    }
    let spoils: [fn(&mut Cdm); 2] = [|c| c.unreadable = 1, |c| c.limited = 1];
    for spoil in spoils {
        let mut device = apple();
        spoil(device.total.cdm.as_mut().unwrap());
        broken.push(device);
    }
    for device in broken {
        assert!(
            read(&report(true, vec![device.clone()])).unwrap_err().contains("could not read"),
            "{device:?}"
        );
    }
}

#[test]
fn another_version_or_no_report_is_no_count() {
    assert!(read(r#"{"schema": 2}"#).unwrap_err().contains("schema 2"));
    for text in ["", "{}", "[]", r#"{"schema": 1, "devices": 3}"#] {
        assert!(read(text).is_err(), "{text}");
    }
}
