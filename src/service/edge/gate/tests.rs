//! Tests of admission: which connections are admitted, and which end for them.

use std::future::Future;
use std::task::{Context, Waker};

use super::*;

fn mk_gate(connections_max: usize, per_peer_max: usize, unfinished_max: usize) -> Gate {
    let limits = Limits {
        connections_max,
        per_peer_max,
        unfinished_max,
        bytes_per_connection_max: 10,
        bytes_per_peer_max: 20,
        bytes_max: 40,
        answers: outgoing::Limits::default(),
    };
    Gate::new(limits, Metrics::disabled())
}

/// Returns the address of the nth remote peer.
fn peer(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn is_evicted(seat: &Seat) -> bool {
    let mut evicted = std::pin::pin!(seat.link.evicted());
    evicted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn finished(gate: &Gate, address: IpAddr) -> Seat {
    let seat = gate.admit(address).unwrap();
    assert!(seat.finished());
    seat
}

#[test]
fn the_oldest_that_is_silent_makes_room() {
    let gate = mk_gate(100, 100, 2);
    let first = gate.admit(peer(1)).unwrap();
    let second = gate.admit(peer(2)).unwrap();
    let third = gate.admit(peer(3)).unwrap();
    assert!(is_evicted(&first) && !is_evicted(&second));
    assert!(!first.finished(), "too late");
    assert!(second.finished() && third.finished());
    let _fourth = gate.admit(peer(4)).unwrap();
    assert!(!is_evicted(&second) && !is_evicted(&third), "those that are finished count no more");
}

#[test]
fn the_peer_with_most_unfinished_connections_makes_room() {
    let gate = mk_gate(100, 100, 4);
    let slow = gate.admit(peer(1)).unwrap();
    let crowd: Vec<Seat> = (0..50).map(|_| gate.admit(peer(2)).unwrap()).collect();
    let are_evicted: Vec<bool> = crowd.iter().map(is_evicted).collect();
    assert_eq!(are_evicted.partition_point(|is| *is), 47, "the oldest of the crowd end");
    assert!(are_evicted.is_sorted_by_key(|is| !is));
    // With as many each, the oldest of all ends, but one of this machine last.
    drop(crowd);
    let local = gate.admit(LOCAL).unwrap();
    let others = [gate.admit(peer(3)).unwrap(), gate.admit(peer(4)).unwrap()];
    let fifth = gate.admit(peer(5)).unwrap();
    assert!(is_evicted(&slow));
    let sixth = gate.admit(peer(6)).unwrap();
    assert!(is_evicted(&others[0]) && local.finished());
    drop((fifth, sixth));
}

#[test]
fn a_gate_without_finished_connections_always_has_a_place() {
    // As on the ops port.
    let gate = mk_gate(256, 32, 256);
    let crowd: Vec<Seat> = (0..40)
        .flat_map(|n| (0..40).map(move |_| n))
        .map(|n| gate.admit(peer(n)).unwrap())
        .collect();
    let left = |n: u8| {
        let of = crowd.iter().filter(|seat| seat.link.tally.peer.address() == peer(n));
        of.filter(|seat| !is_evicted(seat)).count()
    };
    let all: Vec<usize> = (0..40).map(left).collect();
    assert_eq!(all.iter().sum::<usize>(), 240, "the rest is for this machine");
    assert!(all.iter().all(|count| (5..=7).contains(count)), "{all:?}");
    let prober = gate.admit(peer(99)).unwrap();
    let local = gate.admit(LOCAL).unwrap();
    let _more: Vec<Seat> = (0..200).map(|_| gate.admit(peer(7)).unwrap()).collect();
    assert!(!is_evicted(&prober) && !is_evicted(&local));
}

#[test]
fn a_full_server_ends_the_longest_idle_connection_and_none_with_a_call() {
    let gate = mk_gate(3, 3, 3);
    let (busy, idle, latest) =
        (finished(&gate, LOCAL), finished(&gate, LOCAL), finished(&gate, LOCAL));
    let call = busy.caller().begin_call();
    std::thread::sleep(Duration::from_millis(2));
    drop(latest.caller().begin_call());
    let newcomer = gate.admit(LOCAL).unwrap();
    assert!(is_evicted(&idle) && !is_evicted(&busy) && !is_evicted(&latest));
    assert!(newcomer.finished());
    let calls = [newcomer.caller().begin_call(), latest.caller().begin_call()];
    assert!(matches!(gate.admit(LOCAL), Err(ConnectionEnd::Share)));
    drop((call, calls));
    // The place of the ended connection belongs to the new one, even before its task ends.
    drop(idle);
    assert_eq!(lock(&gate.0).open.len(), 3);
}

#[test]
fn a_peer_has_its_share_and_the_others_have_theirs() {
    let gate = mk_gate(100, 2, 100);
    let seats = [finished(&gate, peer(1)), finished(&gate, peer(1))];
    let _calls = seats.each_ref().map(|seat| seat.caller().begin_call());
    assert!(matches!(gate.admit(peer(1)), Err(ConnectionEnd::Share)));
    let others = [finished(&gate, peer(2)), finished(&gate, peer(2))];
    // Within its share a peer replaces its own connections only.
    let _third = gate.admit(peer(2)).unwrap();
    assert!(is_evicted(&others[0]) && !is_evicted(&others[1]));
    assert!(!seats.iter().any(is_evicted));
    drop(seats);
    assert!(gate.admit(peer(1)).is_ok());
}

#[test]
fn some_connections_are_reserved_for_this_machine() {
    let gate = mk_gate(16, 16, 16);
    let seats: Vec<Seat> = (0..14).map(|n| finished(&gate, peer(n))).collect();
    let _calls: Vec<_> = seats.iter().map(|seat| seat.caller().begin_call()).collect();
    assert!(matches!(gate.admit(peer(99)), Err(ConnectionEnd::Full)));
    let local = [finished(&gate, LOCAL), finished(&gate, LOCAL)];
    let _local_calls = local.each_ref().map(|seat| seat.caller().begin_call());
    assert!(matches!(gate.admit(LOCAL), Err(ConnectionEnd::Full)));
}

#[test]
fn resources_of_a_peer_count_after_its_connections_end() {
    use crate::service::caller::Kind;
    let gate = mk_gate(100, 100, 100);
    let seat = finished(&gate, peer(1));
    let mut share = seat.caller().share(Kind::Session);
    assert!(share.grow(1, 0).is_ok());
    drop(seat);
    for n in 2..200 {
        drop(gate.admit(peer(n)).unwrap());
    }
    let again = finished(&gate, peer(1));
    assert!(again.caller().share(Kind::Session).grow(1, 0).is_err());
    drop(share);
    assert!(again.caller().share(Kind::Session).grow(1, 0).is_ok());
    assert!(lock(&gate.0).peers.len() < 100, "those that have nothing are forgotten");
}
