//! Redis: `SET id "" NX EX`, a pipeline a batch, over a unix socket to a server of its own.
//!
//! A reply is sent when the log of its commands was handed to the system, so what was answered
//! outlives the server: the same promise as `Written`. An id and its row are one Lua call, as a
//! row must be there exactly if its id is.

use std::path::Path;
use std::process::Command;

use parking_lot::Mutex;
use redis::{Client, Connection, ErrorKind, Pipeline, Value, cmd};
use rustix::process::Signal;

use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::{Id, Rows};
use crate::server::{Server, check_socket, find};

pub const SETTINGS: &str = "Redis, SET NX EX (a day), one pipeline a batch, unix socket; \
    append-only file, appendfsync everysec (synced workloads: always), no snapshots; rows: a Lua \
    call for each id; memory and processor time of the server included";

/// Longer than any run; a day is what tokens usually get.
const SECONDS: u32 = 86_400;
/// An id, and its row if the id is new.
const SCRIPT: &str = "if redis.call('SET', KEYS[1], '', 'NX', 'EX', ARGV[1]) then \
    redis.call('SET', KEYS[2], ARGV[2]) return 1 end return 0";
/// Before the key of a row.
const ROW: &[u8] = b"row:";

/// Why there is no Redis here, if so.
pub fn missing() -> Option<String> {
    match find("redis-server", &["/usr/sbin", "/usr/local/sbin"]) {
        Some(_) => None,
        None => Some("not installed (no redis-server)".to_owned()),
    }
}

pub struct Redis {
    server: Server,
    client: Client,
    script: String,
    rows: Mutex<Connection>,
}

impl Redis {
    pub fn open(dir: &Path, setup: Setup) -> Result<Redis> {
        let socket = dir.join("redis.sock");
        check_socket(&socket)?;
        let program = find("redis-server", &["/usr/sbin", "/usr/local/sbin"]);
        let mut command = Command::new(program.ok_or("no redis-server")?);
        command.current_dir(dir).arg("--dir").arg(dir);
        command.arg("--unixsocket").arg(&socket);
        let fsync = if setup.synced() { "always" } else { "everysec" };
        for (name, value) in [
            ("--port", "0"),
            ("--save", ""),
            ("--appendonly", "yes"),
            ("--appendfsync", fsync),
            ("--maxclients", "1000"),
            ("--daemonize", "no"),
        ] {
            command.args([name, value]);
        }
        let mut server = Server::start(command, dir, Signal::TERM)?;
        let client = Client::open(format!("unix://{}", socket.display()))?;
        // A server that still loads its file answers, but with that.
        let mut rows = server.wait_for(|| {
            let mut connection = client.get_connection()?;
            cmd("PING").exec(&mut connection)?;
            Ok::<_, redis::RedisError>(connection)
        })?;
        let script = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(&mut rows)?;
        Ok(Redis {
            server,
            client,
            script,
            rows: Mutex::new(rows),
        })
    }
}

/// A connection, and the pipeline that is filled again for each batch.
struct Caller<'a> {
    script: &'a str,
    connection: Connection,
    pipeline: Pipeline,
}

impl Caller<'_> {
    fn write(&mut self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        self.pipeline.clear();
        for id in ids {
            let id = id.as_ref();
            match rows {
                None => {
                    let set = self.pipeline.cmd("SET").arg(id).arg("");
                    set.arg("NX").arg("EX").arg(SECONDS)
                }
                Some(rows) => {
                    let call = self.pipeline.cmd("EVALSHA").arg(self.script).arg(2);
                    call.arg(id).arg([ROW, id].concat());
                    call.arg(SECONDS).arg(rows.of(id))
                }
            };
        }
        let replies: Vec<Value> = self.pipeline.query(&mut self.connection)?;
        let mut firsts = 0;
        for reply in replies {
            match reply {
                Value::Okay | Value::Int(1) => firsts += 1,
                Value::Nil | Value::Int(0) => {}
                other => {
                    let what = (
                        ErrorKind::UnexpectedReturnType,
                        "reply",
                        format!("{other:?}"),
                    );
                    return Err(redis::RedisError::from(what).into());
                }
            }
        }
        Ok(Some(firsts))
    }
}

impl Worker for Caller<'_> {
    writes_any!();
}

impl System for Redis {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(Caller {
            script: &self.script,
            connection: self.client.get_connection()?,
            pipeline: Pipeline::new(),
        }))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        let key = [ROW, &id[..]].concat();
        Ok(cmd("GET").arg(key).query(&mut *self.rows.lock())?)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.id())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.server.stop()
    }
}
