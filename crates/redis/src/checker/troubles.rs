//! Makes the troubles of a scenario happen when they are due.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{advance, sleep_until};

use super::node::Fleet;
use super::scenario::Trouble;

/// Lets everything go wrong that is to go wrong.
pub(super) async fn happen(fleet: Rc<Fleet>) {
    let world = Rc::clone(&fleet.world);
    for (at_us, trouble) in fleet.scenario.troubles.clone() {
        sleep_until(world.moment(at_us)).await;
        if world.is_frozen.get() {
            return;
        }
        world.tell(|| format!("{trouble:?}"));
        happens(&fleet, trouble).await;
    }
}

async fn happens(fleet: &Rc<Fleet>, trouble: Trouble) {
    let world = &fleet.world;
    let servers = &fleet.world.servers;
    match trouble {
        Trouble::Way { place, server, way } => {
            if let Some(node) = fleet.at(place) {
                world.network.set_way(node.number, server, way);
            }
        }
        Trouble::Heal => world.network.heal(),
        Trouble::Crash { server, keeps } => {
            servers.crash(server, keeps);
            world.network.reset_all(server);
        }
        Trouble::Restart { server } => servers.restart(server),
        Trouble::Flush { server } => servers.flush(server),
        Trouble::FlushScripts { server } => servers.flush_scripts(server),
        Trouble::Stall { server, for_us } => servers.stall(server, world.now_us() + for_us),
        Trouble::Replicate { server } => servers.replicate(server),
        Trouble::FailOver { server, ahead_us } => {
            servers.fail_over(server, ahead_us);
            world.network.reset_all(server);
        }
        Trouble::Refuse { server, refusal } => servers.refuse(server, refusal),
        Trouble::FailWithinBatch { server, after } => servers.fail_within_batch(server, after),
        Trouble::CrashNode { place } => fleet.crash(place),
        Trouble::StopNode { place } => {
            let fleet = Rc::clone(fleet);
            spawn_local(async move { fleet.stop(place).await });
        }
        Trouble::StartNode { place } => {
            let fleet = Rc::clone(fleet);
            spawn_local(async move { fleet.start(place).await });
        }
        Trouble::Jump { place, ahead_us } => fleet.jump(place, ahead_us),
        Trouble::BeginToMove { half, to } => servers.begin_to_move(half, to),
        Trouble::EndTheMove => servers.end_the_move(),
        Trouble::GetSlots { server } => servers.get_slots(server),
        Trouble::RefuseTime => servers.refuse_time(),
        Trouble::Rotate => {
            servers.rotate();
            fleet.adopt_password();
        }
        Trouble::StandStill { for_ms } => {
            advance(Duration::from_millis(for_ms)).await;
            world.tick();
        }
    }
}
