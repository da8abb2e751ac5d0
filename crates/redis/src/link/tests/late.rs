//! Replies that come after their calls were given up.

use super::super::delivery::MAX_LATE;
use super::*;

/// A call to a frozen server, which has timed out.
async fn overdue(link: &Link, server: &Process) -> PendingReply {
    let mut call = link.begin("k", "b", Repeat::Never);
    server.signal("STOP");
    assert_eq!((&mut call).await, Err(StoreError::Timeout));
    call
}

fn late(link: &Link) -> usize {
    link.shared.state.borrow().late
}

#[test]
fn a_late_reply_is_read_when_it_comes() {
    run(async {
        let server = Process::start(&[]);
        let link = linked(server.topology(), SHORT).await;
        // Also the reply of a server that is given up meanwhile.
        for failures in [1, 6] {
            eventually("a reply", async || link.ask("other", "b").await.is_ok()).await;
            server.command(&["DEL", "k"]);
            let call = overdue(&link, &server).await;
            for _ in 1..failures {
                let _ = link.ask("other", "b").await;
                tokio::task::yield_now().await;
            }
            let late = call.give_up().expect("the call was sent");
            server.signal("CONT");
            assert_eq!(late.await, Some(Ok("b".into())));
            assert_eq!(server.command(&["GET", "k"]), "1");
        }
        eventually("no late reply is awaited", async || late(&link) == 0).await;
    });
}

#[test]
fn a_call_whose_connection_breaks_after_its_timeout_gets_no_reply_and_is_not_sent_again() {
    run(async {
        let mut server = Process::start(&[]);
        let link = linked(server.topology(), SHORT).await;
        let mut call = link.begin("k", "b", Repeat::IfLost);
        server.signal("STOP");
        assert_eq!((&mut call).await, Err(StoreError::Timeout));
        let answer = call.give_up().expect("the call was sent");
        server.kill();
        let answer = answer.await;
        assert!(matches!(answer, None | Some(Err(StoreError::Lost(_)))), "{answer:?}");
        eventually("no late reply is awaited", async || late(&link) == 0).await;
        server.restart();
        eventually("a reply", async || link.ask("other", "b").await.is_ok()).await;
        assert_eq!(server.command(&["EXISTS", "k"]), "0");
    });
}

#[test]
fn a_call_that_was_never_sent_has_no_late_reply() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        server.sleep(true);
        let link = Link::new(
            settings(server.topology(), SHORT),
            &*ECHO,
            Target::Fixed(server.address()),
            &Outages::default(),
        );
        let mut call = link.begin("k", "b", Repeat::Never);
        assert_eq!((&mut call).await, Err(StoreError::NotSent));
        assert!(call.give_up().is_none());
        server.sleep(false);
        eventually("the server is used", async || link.ask("k", "b").await.is_ok()).await;
        assert_eq!(server.scripts(), 1, "the call that was given up is not sent");
    });
}

#[test]
fn the_number_of_late_replies_is_bounded() {
    run(async {
        let server = Process::start(&[]);
        let link = linked(server.topology(), SHORT).await;
        link.shared.state.borrow_mut().late = MAX_LATE;
        let call = overdue(&link, &server).await;
        // The batch is given up a moment after its callers.
        if let Some(late) = call.give_up() {
            assert_eq!(late.await, None);
        }
        server.signal("CONT");
        assert_eq!(late(&link), MAX_LATE);
    });
}
