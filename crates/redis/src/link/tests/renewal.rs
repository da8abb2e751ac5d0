//! Credentials that change while a link is in use.

use std::sync::Arc;

use super::super::super::live_settings::{Latest, LiveSettings};
use super::super::super::settings::{Password, Topology};
use super::*;

/// A server with the users ann and bob. The tests send commands as the default user.
struct Site {
    server: Process,
    outages: Outages,
    latest: Arc<Latest>,
    link: Link,
}

impl Site {
    async fn new() -> Self {
        let server = Process::start(&[]);
        let outages = Outages::default();
        for user in ["ann", "bob"] {
            server.command(&["ACL", "SETUSER", user, "on", ">one", "~*", "+@all"]);
        }
        let settings = of_user(server.topology(), "ann", "one");
        let latest = Latest::new(settings);
        let live = LiveSettings::new(&latest, |settings| settings);
        let Topology::Standalone(address) = server.topology() else { unreachable!() };
        let link = Link::new(live, &*ECHO, Target::Fixed(address), &outages);
        link.settled().await;
        Self { server, outages, latest, link }
    }

    fn change(&self, user: &str, password: &str) {
        self.latest.set(of_user(self.server.topology(), user, password));
    }

    /// The password of ann is another one from now on.
    fn rotate(&self, password: &str) {
        self.server.command(&["ACL", "SETUSER", "ann", "resetpass", &format!(">{password}")]);
    }

    async fn works(&self) {
        assert_eq!(self.link.ask("k", "body").await, Ok("body".into()));
        assert_eq!(self.link.health().failed, 0);
    }

    /// Waits until the server has accepted this user and password.
    async fn accepts(&self, user: &str, password: &str) {
        let wanted = of_user(self.server.topology(), user, password);
        eventually("the credentials are accepted", async || {
            self.link.shared.accepted.borrow().as_ref().is_some_and(|it| it.opens_like(&wanted))
        })
        .await;
    }

    /// The user of each connection of the link.
    fn connected_users(&self) -> Vec<String> {
        let clients = self.server.command(&["CLIENT", "LIST"]);
        let of_link = clients.lines().filter(|it| !it.contains("cmd=client"));
        let users = of_link.filter_map(|it| it.split(" user=").nth(1)?.split(' ').next());
        users.map(str::to_owned).collect()
    }

    fn refused(&self) -> Vec<OutageCause> {
        self.outages.renewals_refused().iter().map(|it| it.cause).collect()
    }

    fn connections(&self) -> u64 {
        self.link.shared.state.borrow().connections
    }
}

fn of_user(topology: Topology, user: &str, password: &str) -> RedisSettings {
    let mut settings = RedisSettings::clone(&settings(topology, PATIENCE));
    settings.credentials.username = Some(user.to_owned());
    settings.credentials.password = Some(Password::new(password));
    settings
}

#[test]
fn a_new_password_is_used_on_the_open_connection_and_on_later_ones() {
    run(async {
        let site = Site::new().await;
        site.works().await;
        site.rotate("two");
        site.change("ann", "two");
        site.accepts("ann", "two").await;
        site.works().await;
        assert_eq!(site.connections(), 1, "it was not closed");
        assert_eq!(site.refused(), []);
        site.server.command(&["CLIENT", "KILL", "USER", "ann"]);
        eventually("it connects again", async || site.connections() == 2).await;
        site.works().await;
        assert!(site.outages.all().is_empty());
    });
}

#[test]
fn a_wrong_password_keeps_the_connection_and_is_reported_until_a_right_one_comes() {
    run(async {
        let site = Site::new().await;
        site.change("ann", "wrong");
        eventually("it is reported", async || !site.refused().is_empty()).await;
        assert_eq!(site.refused(), [OutageCause::PasswordWrong]);
        site.works().await;
        // The server accepts the password of before, so the link does too.
        site.server.command(&["CLIENT", "KILL", "USER", "ann"]);
        eventually("it connects again", async || site.connections() == 2).await;
        site.works().await;
        assert!(site.outages.all().is_empty());
        assert_eq!(site.refused(), [OutageCause::PasswordWrong]);
        // The server learns the password later than the gateway.
        site.rotate("right");
        site.change("ann", "right");
        site.accepts("ann", "right").await;
        assert_eq!((site.refused(), site.connections()), (vec![], 2));
        // What is not wanted any more is not reported any more.
        site.change("ann", "wrong");
        eventually("it is reported", async || !site.refused().is_empty()).await;
        site.change("ann", "right");
        eventually("it is over", async || site.refused().is_empty()).await;
        site.works().await;
    });
}

#[test]
fn a_password_that_the_server_learns_later_is_tried_again() {
    run(async {
        let site = Site::new().await;
        site.change("ann", "two");
        eventually("it is reported", async || !site.refused().is_empty()).await;
        site.rotate("two");
        site.accepts("ann", "two").await;
        assert_eq!((site.refused(), site.connections()), (vec![], 1));
    });
}

#[test]
fn another_user_gets_another_connection_and_no_call_is_lost() {
    run(async {
        let site = Site::new().await;
        let calls = async {
            for _ in 0..2000 {
                site.works().await;
            }
        };
        let change = async {
            site.change("bob", "one");
            site.accepts("bob", "one").await;
        };
        tokio::join!(calls, change);
        assert_eq!(site.server.command(&["GET", "k"]), "2000");
        assert_eq!((site.refused(), site.connections()), (vec![], 2));
        eventually("the old one is closed", async || site.connected_users() == ["bob"]).await;
    });
}

/// A connection with a user that lacks a right does not replace the connection of now.
#[test]
fn another_user_who_lacks_a_right_is_reported_and_not_used() {
    run(async {
        let site = Site::new().await;
        site.server.command(&["ACL", "SETUSER", "bob", "-evalsha"]);
        site.change("bob", "one");
        eventually("it is reported", async || !site.refused().is_empty()).await;
        assert_eq!(site.refused(), [OutageCause::CommandForbidden]);
        site.works().await;
        assert_eq!(site.connected_users(), ["ann"]);
    });
}
