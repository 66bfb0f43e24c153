//! PostgreSQL: `INSERT … ON CONFLICT DO NOTHING`, one statement a batch, over a unix socket to a
//! server of its own.
//!
//! The ids of a batch are one array parameter, which its documentation gives as the fast way. It
//! refuses to run as root; then it runs as `postgres`, or `nobody` where there is no such user.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use parking_lot::Mutex;
use postgres::{Client, Config, NoTls, Statement};
use rustix::process::Signal;

use super::sorted::sorted;
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::{Id, Rows};
use crate::server::{Server, check_socket, find};

pub const SETTINGS: &str = "PostgreSQL, one INSERT of an array of sorted ids, ON CONFLICT DO \
    NOTHING, prepared, unix socket; synchronous_commit=off (weaker than the others: a crash of \
    the server loses the last moments; synced workloads: on), shared_buffers 1 GB, max_wal_size \
    4 GB, checkpoints every 15 min, lz4 WAL; memory and processor time of the server included";

const USER: &str = "firstseen";
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS ids (id bytea PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS rows (id bytea PRIMARY KEY, row bytea NOT NULL);
    ALTER TABLE rows ALTER COLUMN row SET STORAGE PLAIN;
";
const INSERT: &str = "INSERT INTO ids SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING";
const COMMIT: &str = "WITH new AS (INSERT INTO ids SELECT unnest($1::bytea[])
        ON CONFLICT DO NOTHING RETURNING id)
    INSERT INTO rows SELECT r.id, r.row FROM unnest($1::bytea[], $2::bytea[]) AS r(id, row)
        JOIN new USING (id)
    ON CONFLICT (id) DO UPDATE SET row = excluded.row";

fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin"];
    // Both of one version: what makes the directory must fit what opens it.
    let server = find("postgres", &folders)?;
    let folder = server.canonicalize().ok()?.parent()?.to_owned();
    let program = folder.join(name);
    program.is_file().then_some(program)
}

/// Why there is no PostgreSQL here, or why it can't run, if so.
pub fn missing() -> Option<String> {
    for name in ["postgres", "initdb"] {
        if program(name).is_none() {
            return Some(format!("not installed (no {name})"));
        }
    }
    match Owner::of_server() {
        Ok(_) => None,
        Err(e) => Some(e.to_string()),
    }
}

/// The user that the server runs as, if that is another than ours.
#[derive(Clone, Copy)]
struct Owner(Option<(u32, u32)>);

impl Owner {
    fn of_server() -> Result<Owner> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Owner(None));
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let user = ["postgres", "nobody"].iter().find_map(|n| entry(&users, n));
        match user {
            Some(user) => Ok(Owner(Some(user))),
            None => Err("it refuses to run as root, and there is no other user for it".into()),
        }
    }

    fn give(self, path: &Path) -> io::Result<()> {
        match self.0 {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    fn command(self, name: &str) -> Result<Command> {
        let mut command = Command::new(program(name).ok_or("it is not installed")?);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command.env_clear().env("LC_ALL", "C");
        Ok(command)
    }
}

/// The user's and the group's number in a list of users.
fn entry(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users.lines().find(|l| l.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Every folder above lets the server's user through, where it is ours to say.
fn let_through(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711))
}

pub struct Postgres {
    server: Server,
    config: Config,
    rows: Mutex<Client>,
}

impl Postgres {
    pub fn open(dir: &Path, setup: Setup) -> Result<Postgres> {
        let owner = Owner::of_server()?;
        let data = dir.join("data");
        check_socket(&data.join(".s.PGSQL.5432"))?;
        let_through(dir)?;
        if !data.exists() {
            fs::create_dir(&data)?;
            owner.give(&data)?;
            make(owner, &data)?;
        }
        let mut server = Server::start(command(owner, &data, setup)?, dir, Signal::INT)?;
        let mut config = Config::new();
        config.host_path(&data).user(USER).dbname("postgres");
        let mut rows = server.wait_for(|| config.connect(NoTls).map_err(|e| reason(&e)))?;
        rows.batch_execute(TABLES)?;
        Ok(Postgres {
            server,
            config,
            rows: Mutex::new(rows),
        })
    }
}

/// What the client's errors keep to themselves.
fn reason(error: &postgres::Error) -> String {
    let below = std::error::Error::source(error);
    format!(
        "{error} {}",
        below.map_or_else(String::new, |e| e.to_string())
    )
}

/// Makes the server's own directory.
fn make(owner: Owner, data: &Path) -> Result<()> {
    let mut command = owner.command("initdb")?;
    command.current_dir("/").arg("-D").arg(data);
    command.args(["-U", USER, "-A", "trust", "-E", "UTF8"]);
    command.args(["--locale=C", "--no-sync"]);
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let hint = "; its user must be able to reach the directory: see --dir";
    Err(format!("initdb: {}{hint}", said.trim()).into())
}

fn command(owner: Owner, data: &Path, setup: Setup) -> Result<Command> {
    let mut command = owner.command("postgres")?;
    command.current_dir("/").arg("-D").arg(data);
    let buffers = format!("shared_buffers={}kB", (setup.peer_cache() / 1024).max(1024));
    let sockets = format!("unix_socket_directories={}", data.display());
    let commit = if setup.synced() { "on" } else { "off" };
    let commit = format!("synchronous_commit={commit}");
    for setting in [
        &buffers,
        &sockets,
        &commit,
        "listen_addresses=",
        "max_connections=100",
        "max_wal_size=4GB",
        "checkpoint_timeout=15min",
        "wal_compression=lz4",
    ] {
        command.args(["-c", setting]);
    }
    Ok(command)
}

/// A connection with its prepared statements.
struct Caller {
    client: Client,
    insert: Statement,
    commit: Statement,
}

impl Caller {
    fn write(&mut self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        let ids = sorted(ids);
        let ids: Vec<&[u8]> = ids.iter().map(AsRef::as_ref).collect();
        let firsts = match rows {
            None => self.client.execute(&self.insert, &[&ids])?,
            Some(rows) => {
                let rows: Vec<&[u8]> = ids.iter().map(|id| rows.of(id)).collect();
                self.client.execute(&self.commit, &[&ids, &rows])?
            }
        };
        Ok(Some(firsts))
    }
}

impl Worker for Caller {
    writes_any!();
}

impl System for Postgres {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        let mut client = self.config.connect(NoTls)?;
        let insert = client.prepare(INSERT)?;
        let commit = client.prepare(COMMIT)?;
        Ok(Box::new(Caller {
            client,
            insert,
            commit,
        }))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT row FROM rows WHERE id = $1";
        let row = self.rows.lock().query_opt(sql, &[&&id[..]])?;
        Ok(row.map(|row| row.get(0)))
    }

    fn settle(&self) -> Result<()> {
        let mut rows = self.rows.lock();
        rows.batch_execute("VACUUM ANALYZE ids")?;
        rows.batch_execute("CHECKPOINT")?;
        Ok(())
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.id())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Postgres { server, rows, .. } = *self;
        let mut rows = rows.into_inner();
        rows.batch_execute("CHECKPOINT")?;
        rows.close()?;
        server.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0::/:/bin/sh\npostgresql:x:5:6::/:/no\npostgres:x:113:120:,:/:/no\n";
        assert_eq!(entry(users, "postgres"), Some((113, 120)));
        assert_eq!(entry(users, "nobody"), None);
        assert_eq!(entry("postgres:x:a", "postgres"), None);
    }
}
