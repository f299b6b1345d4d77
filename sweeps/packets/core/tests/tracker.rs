//! Calls as drivers make them, and as nobody should: what is counted, and what is never read.

mod support;

use proptest::prelude::*;
use support::process::{ARGUMENT, OWN, Watched, pair, request};
use zinc_packets_core::report::{Device, Report};
use zinc_packets_core::tracker::Driver;

const DISPATCH: [u32; 5] = [0xc003_1502, 1, 1, 1, 1];
const VA: u64 = 0xffff_8001_0000_0000;
const CPU: u64 = 0x7fff_0000;

/// amdgpu with one buffer of a page, handle 1, at VA and CPU, that holds a dispatch.
fn amdgpu() -> Watched {
    let mut watched = Watched::new(Driver::Amdgpu);
    watched.amdgpu_buffer(1, 0x1000, 0x10000);
    watched.tracker.map(3, CPU, 0x1000, 0x10000, true);
    watched.process.put_words(CPU, &[0xffff_1000; 1024]);
    watched.process.put_words(CPU, &DISPATCH);
    watched.amdgpu_va(1, 1, VA, 0x1000);
    watched
}

fn device(watched: &Watched) -> Device {
    let report = watched.tracker.report(true);
    assert_eq!(report.devices.len(), 1);
    report.devices[0].clone()
}

fn dispatches(watched: &Watched) -> u64 {
    device(watched).total.pm4.expect("amdgpu").dispatches
}

#[test]
fn a_submission_is_counted_for_its_queue() {
    let mut watched = amdgpu();
    watched.amdgpu_submit(0, 0, VA, 5, true);
    watched.amdgpu_submit(1, 2, VA, 8, true);
    watched.amdgpu_submit(1, 2, VA, 8, true);
    let device = device(&watched);
    assert_eq!((device.driver.as_str(), device.kernel.as_str(), device.submits), ("amdgpu", "3.49.0", 3));
    let queues: Vec<_> = device.queues.iter().map(|q| (q.name.as_str(), q.submits)).collect();
    let expected = [("gfx context 7 instance 0 ring 0", 1), ("compute context 7 instance 0 ring 2", 2)];
    assert_eq!(queues, expected);
    assert_eq!(dispatches(&watched), 3);
    assert_eq!(device.unreadable_submits, 0);
}

#[test]
fn a_submission_that_the_kernel_refused_is_not_counted() {
    let mut watched = amdgpu();
    watched.amdgpu_submit(0, 0, VA, 5, false);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    let device = device(&watched);
    assert_eq!((device.submits, device.failed_submits, dispatches(&watched)), (1, 1, 1));
}

#[test]
fn a_copy_engine_s_buffers_are_counted_and_not_walked() {
    let mut watched = amdgpu();
    watched.amdgpu_submit(2, 0, VA, 5, true);
    let device = device(&watched);
    assert_eq!((device.total.other_buffers, dispatches(&watched)), (1, 0));
}

#[test]
fn memory_that_is_no_longer_mapped_is_not_read() {
    let mut watched = amdgpu();
    watched.tracker.unmap(CPU, 0x1000);
    watched.process.remove(CPU, 0x1000);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    let device = device(&watched);
    assert_eq!((device.submits, device.unreadable_submits, dispatches(&watched)), (1, 1, 0));
}

#[test]
fn a_buffer_that_the_driver_unmapped_is_mapped_again_until_its_handle_is_closed() {
    let mut watched = amdgpu();
    watched.tracker.unmap(CPU, 0x1000);
    watched.process.remove(CPU, 0x1000);
    watched.process.put_words(OWN + 0x10000, &DISPATCH);
    watched.process.put_words(OWN + 0x10014, &[0xffff_1000; 1019]);
    watched.process.may_map.set(true);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    assert_eq!((dispatches(&watched), watched.process.own.borrow().len()), (2, 1));
    watched.call(3, 0x09, &[1], None, true);
    assert!(watched.process.own.borrow().is_empty());
}

#[test]
fn closing_the_last_descriptor_ends_own_mappings_and_keeps_the_counts() {
    let mut watched = amdgpu();
    watched.tracker.unmap(CPU, 0x1000);
    watched.process.put_words(OWN + 0x10000, &[0xffff_1000; 1024]);
    watched.process.may_map.set(true);
    watched.tracker.duplicate(&watched.process, 3, 4);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    watched.tracker.close(&watched.process, 3);
    assert_eq!(watched.process.own.borrow().len(), 1, "descriptor 4 still holds the file");
    watched.tracker.close(&watched.process, 4);
    assert!(watched.process.own.borrow().is_empty());
    assert_eq!(device(&watched).submits, 1);
}

#[test]
fn a_duplicated_descriptor_is_the_same_device() {
    let mut watched = amdgpu();
    watched.tracker.duplicate(&watched.process, 3, 9);
    watched.tracker.close(&watched.process, 3);
    watched.tracker.duplicate(&watched.process, 9, 3);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    assert_eq!(dispatches(&watched), 1);
}

#[test]
fn a_handle_that_is_used_again_is_another_buffer() {
    let mut watched = amdgpu();
    watched.call(3, 0x09, &[1], None, true);
    watched.amdgpu_buffer(1, 0x1000, 0x20000);
    watched.amdgpu_va(1, 1, VA, 0x1000);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    assert_eq!(device(&watched).unreadable_submits, 1, "the old buffer's memory is not the new one's");
}

#[test]
fn a_mapping_that_can_t_be_read_is_not_read() {
    let mut watched = amdgpu();
    watched.tracker.map(3, CPU, 0x1000, 0x10000, false);
    watched.amdgpu_submit(0, 0, VA, 5, true);
    assert_eq!(device(&watched).unreadable_submits, 1);
}

#[test]
fn a_part_of_a_buffer_may_be_mapped_and_bound() {
    let mut watched = Watched::new(Driver::Amdgpu);
    watched.amdgpu_buffer(1, 0x4000, 0x10000);
    watched.tracker.map(3, CPU, 0x2000, 0x12000, true);
    watched.process.put_words(CPU, &[0xffff_1000; 2048]);
    watched.process.put_words(CPU + 0x1ff0, &DISPATCH[..4]);
    watched.call(3, 0x48, &[1, pair(4, 0), VA, 0x2000, 0x2000], None, true);
    watched.amdgpu_submit(0, 0, VA + 0x1fe0, 12, true);
    let pm4 = device(&watched).total.pm4.expect("amdgpu");
    assert_eq!((pm4.packets, pm4.unreadable), (5, 1), "four words of padding, then a packet across the end");
}

#[test]
fn releases_are_named_by_the_generation() {
    for (gfx, bits) in [(9, vec!["TC_WB_ACTION_ENA", "TC_ACTION_ENA"]), (11, vec!["GL1_INV", "GL2_RANGE"])] {
        let mut watched = amdgpu();
        watched.process.put_words(CPU, &[0xc006_4900, 0x28514, 0, 0, 0, 0, 0, 0]);
        watched.amdgpu_submit(0, 0, VA, 8, true);
        let unnamed = device(&watched).total.pm4.expect("amdgpu").cache_ops[0].clone();
        assert!(unnamed.bits.is_empty() && unnamed.value == "0x28000");
        // The answer arrives after the submission, and still names it.
        watched.process.put_words(ARGUMENT + 0x4000, &[gfx]);
        watched.call(3, 0x45, &[ARGUMENT + 0x4000, pair(4, 2), pair(0, 0)], None, true);
        let device = device(&watched);
        let op = &device.total.pm4.expect("amdgpu").cache_ops[0];
        assert_eq!(
            (device.generation, op.bits.clone()),
            (Some(gfx), bits.into_iter().map(str::to_owned).collect())
        );
        assert_eq!(op.event.as_deref(), Some("CACHE_FLUSH_AND_INV_TS_EVENT"));
    }
}

#[test]
fn a_user_queue_is_admitted() {
    let mut watched = amdgpu();
    watched.call(3, 0x56, &[1, 0], None, true);
    assert_eq!(device(&watched).user_queues, 1);
}

#[test]
fn arguments_that_can_t_be_read_are_unreadable_submissions() {
    let mut watched = amdgpu();
    watched.call(3, 0x44, &[7, pair(2, 0), 0xdead_0000], Some(&[1, 0, 0]), true);
    let device = device(&watched);
    assert_eq!((device.submits, device.unreadable_submits), (1, 1));
}

#[test]
fn other_drivers_with_the_same_numbers_are_passed_by() {
    let mut watched = Watched::new(Driver::of("i915"));
    watched.amdgpu_submit(0, 0, VA, 5, true);
    assert!(watched.tracker.report(true).devices.is_empty() && !watched.tracker.saw_a_device());
}

const STREAM: u64 = 0x11_0000_0000;

/// asahi with a buffer, handle 5, of 32 KiB at CPU, whose second half is bound to STREAM in VM 2; queue 8 is in VM 2.
fn asahi() -> Watched {
    let mut watched = Watched::new(Driver::Asahi);
    watched.asahi_buffer(5, 0x8000, 0x10000, CPU);
    watched.process.put_words(CPU, &[0; 0x2000]);
    let stream = [4, 0x40, 64, 1, 1, 64, 1, 1, 0x600f_ffff, 0x4000_0000, 0];
    watched.process.put_words(CPU + 0x4000, &stream);
    watched.asahi_bind(2, &[(6, 5, 0x4000, 0x4000, STREAM)]);
    watched.call(3, 0x48, &[pair(0, 2), 0], Some(&[pair(0, 2), pair(0, 8)]), true);
    watched
}

#[test]
fn an_asahi_submission_is_counted_with_its_waits() {
    let mut watched = asahi();
    watched.asahi_submit(8, &[(STREAM, 0), (STREAM, 0xffff)]);
    let device = device(&watched);
    let cdm = device.total.cdm.clone().expect("asahi");
    assert_eq!((cdm.streams, cdm.waiting_streams, cdm.launches, cdm.barriers), (2, 1, 2, 2));
    assert_eq!(
        (cdm.barrier_masks[0].mask.as_str(), device.queues[0].name.as_str()),
        ("0x000fffff", "queue 8")
    );
}

#[test]
fn an_asahi_binding_outlives_its_handle_and_ends_when_it_is_unbound() {
    let mut watched = asahi();
    watched.call(3, 0x09, &[5], None, true);
    watched.asahi_submit(8, &[(STREAM, 0)]);
    assert_eq!(device(&watched).unreadable_submits, 0);
    watched.asahi_bind(2, &[(1, 0, 0, 0x4000, STREAM)]);
    watched.asahi_submit(8, &[(STREAM, 0)]);
    assert_eq!((device(&watched).submits, device(&watched).unreadable_submits), (2, 1));
}

#[test]
fn addresses_belong_to_the_vm_of_the_queue() {
    let mut watched = asahi();
    watched.call(3, 0x48, &[pair(0, 1), 0], Some(&[pair(0, 1), pair(0, 9)]), true);
    watched.asahi_submit(9, &[(STREAM, 0)]);
    assert_eq!(device(&watched).unreadable_submits, 1);
}

#[test]
fn a_report_can_be_read_back() {
    let mut watched = asahi();
    watched.asahi_submit(8, &[(STREAM, 0)]);
    let report = watched.tracker.report(false);
    let text = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("a report"), report);
}

proptest! {
    #[test]
    fn no_sequence_of_calls_reads_what_is_not_mapped(
        amd in any::<bool>(),
        calls in prop::collection::vec(
            (0u8..12, prop::sample::select(vec![0x09u8, 0x40, 0x41, 0x44, 0x45, 0x46, 0x48, 0x4a, 0x56]),
             prop::collection::vec(prop_oneof![0u64..4, Just(CPU), Just(VA), Just(STREAM), Just(ARGUMENT), any::<u64>()], 0..6),
             any::<bool>()),
            0..40),
    ) {
        // `Bytes::mapped` panics on memory that is not there, and there is none but the argument and the stream.
        let mut watched = if amd { amdgpu() } else { asahi() };
        for (what, number, words, succeeded) in calls {
            match what {
                0 => {
                    watched.tracker.unmap(CPU, 0x8000);
                    watched.process.remove(CPU, 0x8000);
                }
                1 => watched.tracker.close(&watched.process, 3),
                2 => watched.tracker.open(&watched.process, 3, Driver::Asahi, (1, 0, 0)),
                3 => watched.tracker.duplicate(&watched.process, 4, 3),
                4 => watched.amdgpu_submit(words.len() as u32 % 3, 0, VA, 100, succeeded),
                5 => watched.asahi_submit(8, &[(STREAM, 0), (words.len() as u64, 1)]),
                _ => watched.call(3, number, &words, None, succeeded),
            }
        }
        let oddly_sized = watched.tracker.before(&watched.process, 3, request(0x44, 0x3fff), ARGUMENT);
        watched.tracker.after(&watched.process, 3, ARGUMENT, oddly_sized, true);
        watched.tracker.report(true);
    }
}
