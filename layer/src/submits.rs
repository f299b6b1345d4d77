//! Submissions, and waits for them.
//!
//! What is submitted is counted, audited, and, where the user asked for it, replaced by what `replay` makes of it. Waits
//! are hooked for the replay alone: what it hides must be shown before the host looks.

use crate::abi::{chain, slice};
use crate::context::catch;
use crate::device::{Device, registry};
use crate::objects::device_of;
use crate::recorder::Finished;
use crate::replay::Batch;
use crate::reporting;
use ash::vk;

/// Adds what was submitted to the device's sums.
fn count_submit(device: &Device, queue: vk::Queue, batches: u32, finished: Vec<Finished>) {
    if device.settings.audit {
        let journals: Vec<_> = finished.iter().filter_map(|recording| recording.journal.clone()).collect();
        device.settings.warn(device.audit.lock().submit(queue, &journals));
    }
    for witnesses in finished.iter().filter_map(|recording| recording.witnesses.as_ref()) {
        let mut all = device.witnesses.lock();
        witnesses.iter().for_each(|(key, times)| *all.entry(*key).or_default() += times);
    }
    let mut sums = device.sums.lock();
    sums.totals.submits += u64::from(batches);
    for recording in finished {
        sums.totals += recording.counts;
        for (policy, counts) in recording.would_emit {
            *sums.would_emit.entry(policy).or_default() += counts;
        }
    }
}

/// Submits with `submit`, and counts what was submitted if the driver took it: what it refused was not executed.
///
/// What is read of the recordings is read before: once they are submitted, another thread may wait for them and record
/// anew.
fn counted<B: Iterator<Item = vk::CommandBuffer>>(
    device: &Device,
    queue: vk::Queue,
    batches: u32,
    buffers: impl FnOnce() -> B,
    submit: impl FnOnce() -> vk::Result,
) -> vk::Result {
    let finished = catch(|| Some(recordings(buffers())));
    device.submitted();
    let result = submit();
    if result == vk::Result::SUCCESS {
        catch(|| {
            count_submit(device, queue, batches, finished?);
            reporting::submitted(device);
            Some(())
        });
    }
    result
}

/// The recordings of command buffers that are about to be submitted.
fn recordings(buffers: impl Iterator<Item = vk::CommandBuffer>) -> Vec<Finished> {
    buffers
        // SAFETY: they are being submitted.
        .filter_map(|buffer| unsafe { registry().command_buffers.get(buffer) })
        .map(|record| record.finished.lock().clone())
        .collect()
}

/// Submits `batches`, or what the replay makes of them, with `submit`, which gets the command buffers of each.
///
/// # Safety
///
/// The batches must be those of a submission to `queue`.
unsafe fn replayed(
    device: &Device,
    queue: vk::Queue,
    mut batches: Vec<Batch>,
    submit: impl FnOnce(&[Batch]) -> vk::Result,
) -> vk::Result {
    // SAFETY: by the caller.
    let running = catch(|| unsafe { device.replay.replace(device, queue, &mut batches) });
    let result = submit(&batches);
    if let Some(running) = running {
        catch(|| {
            // SAFETY: as above.
            unsafe { device.replay.submitted(device, queue, running) };
            Some(())
        });
    }
    result
}

/// A batch of the layer's own, before which everything hidden is shown.
fn showing() -> Batch {
    Batch { buffers: Vec::new(), is_watched: true, is_odd: false }
}

pub unsafe extern "system" fn queue_submit(
    queue: vk::Queue,
    count: u32,
    submits: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(known) = device_of(queue) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(submit) = known.next.queue_submit else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let infos = slice(submits, count);
        let buffers =
            || infos.iter().flat_map(|s| slice(s.p_command_buffers, s.command_buffer_count).iter().copied());
        if !known.replay.is_on() {
            return counted(known, queue, count, buffers, || submit(queue, count, submits, fence));
        }
        let (mut batches, mut from) = (Vec::new(), Vec::new());
        for (number, info) in infos.iter().enumerate() {
            let timeline = vk::StructureType::TIMELINE_SEMAPHORE_SUBMIT_INFO;
            let is_odd = chain(info.p_next).any(|c| c.s_type() != timeline);
            if is_odd {
                batches.push(showing());
                from.push(vk::SubmitInfo::default());
            }
            let last = number + 1 == infos.len() && fence != vk::Fence::null();
            batches.push(Batch {
                buffers: slice(info.p_command_buffers, info.command_buffer_count).to_vec(),
                is_watched: last || info.signal_semaphore_count > 0,
                is_odd,
            });
            from.push(*info);
        }
        if infos.is_empty() {
            batches.push(showing());
            from.push(vk::SubmitInfo::default());
        }
        counted(known, queue, count, buffers, || {
            replayed(known, queue, batches, |batches| {
                for (info, batch) in from.iter_mut().zip(batches) {
                    info.command_buffer_count = batch.buffers.len() as u32;
                    info.p_command_buffers = batch.buffers.as_ptr();
                }
                submit(queue, from.len() as u32, from.as_ptr(), fence)
            })
        })
    }
}

pub unsafe extern "system" fn queue_submit2(
    queue: vk::Queue,
    count: u32,
    submits: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: the application's own arguments, read and passed on.
    unsafe {
        let Some(known) = device_of(queue) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(submit) = known.next.queue_submit2 else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let infos = slice(submits, count);
        let commands = |info: &vk::SubmitInfo2<'_>| {
            buffers_of(info.p_command_buffer_infos, info.command_buffer_info_count)
        };
        let buffers = || infos.iter().flat_map(&commands);
        if !known.replay.is_on() {
            return counted(known, queue, count, buffers, || submit(queue, count, submits, fence));
        }
        let (mut batches, mut from) = (Vec::new(), Vec::new());
        for (number, info) in infos.iter().enumerate() {
            let is_odd = !info.p_next.is_null()
                || !info.flags.is_empty()
                || slice(info.p_command_buffer_infos, info.command_buffer_info_count)
                    .iter()
                    .any(|c| !c.p_next.is_null() || c.device_mask & !1 != 0);
            if is_odd {
                batches.push(showing());
                from.push(vk::SubmitInfo2::default());
            }
            let last = number + 1 == infos.len() && fence != vk::Fence::null();
            batches.push(Batch {
                buffers: commands(info),
                is_watched: last || info.signal_semaphore_info_count > 0,
                is_odd,
            });
            from.push(*info);
        }
        if infos.is_empty() {
            batches.push(showing());
            from.push(vk::SubmitInfo2::default());
        }
        counted(known, queue, count, buffers, || {
            replayed(known, queue, batches, |batches| {
                let infos: Vec<Vec<_>> = batches
                    .iter()
                    .map(|batch| {
                        let info = |buffer: &vk::CommandBuffer| {
                            vk::CommandBufferSubmitInfo::default().command_buffer(*buffer)
                        };
                        batch.buffers.iter().map(info).collect()
                    })
                    .collect();
                for ((info, batch), commands) in from.iter_mut().zip(batches).zip(&infos) {
                    if !batch.is_odd {
                        info.command_buffer_info_count = commands.len() as u32;
                        info.p_command_buffer_infos = commands.as_ptr();
                    }
                }
                submit(queue, from.len() as u32, from.as_ptr(), fence)
            })
        })
    }
}

/// The command buffers of a batch of the second version.
///
/// # Safety
///
/// The array must be valid.
unsafe fn buffers_of(infos: *const vk::CommandBufferSubmitInfo<'_>, count: u32) -> Vec<vk::CommandBuffer> {
    // SAFETY: by the caller.
    unsafe { slice(infos, count) }.iter().map(|info| info.command_buffer).collect()
}

/// Shows what is hidden on `queue`, for somebody who is about to wait for it.
///
/// # Safety
///
/// The queue must be free to be submitted to.
unsafe fn show(device: &Device, queue: vk::Queue) {
    let batch = catch(|| device.replay.last_batch(queue));
    let (Some(batch), Some(submit)) = (batch, device.next.queue_submit) else { return };
    // SAFETY: by the caller.
    unsafe {
        let _ = replayed(device, queue, vec![batch], |batches| {
            let info = vk::SubmitInfo::default().command_buffers(&batches[0].buffers);
            submit(queue, 1, &raw const info, vk::Fence::null())
        });
    }
}

pub unsafe extern "system" fn queue_wait_idle(queue: vk::Queue) -> vk::Result {
    // SAFETY: the application's own arguments, passed on; it may not use the queue at the same time.
    unsafe {
        let Some(known) = device_of(queue) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(wait) = known.next.queue_wait_idle else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        if known.replay.is_on() {
            show(known, queue);
        }
        wait(queue)
    }
}

pub unsafe extern "system" fn device_wait_idle(device: vk::Device) -> vk::Result {
    // SAFETY: the application's own arguments, passed on; it may not use any of the device's queues at the same time.
    unsafe {
        let Some(known) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let Some(wait) = known.next.device_wait_idle else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        if known.replay.is_on() {
            for queue in catch(|| Some(known.replay.hiding())).unwrap_or_default() {
                show(known, queue);
            }
        }
        wait(device)
    }
}
