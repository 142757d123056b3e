//! What a user of Redis would write: a lease by `SET NX PX`, which the client checks before each
//! write. Each step alone is atomic. The write itself names no epoch, so nothing refuses a client
//! that stood still between the check and the write.

use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;

use super::client::{Answer, Register};
use super::history::{Operation, Outcome};

const CLAIM: &str = r"
    if redis.call('SET', KEYS[1]..':lease', ARGV[1], 'NX', 'PX', ARGV[2]) then
        return {1, redis.call('INCR', KEYS[1]..':epoch'), ARGV[1]}
    end
    local holder = redis.call('GET', KEYS[1]..':lease')
    if holder == ARGV[1] then redis.call('PEXPIRE', KEYS[1]..':lease', ARGV[2]) end
    return {holder == ARGV[1] and 1 or 0, tonumber(redis.call('GET', KEYS[1]..':epoch')), holder}";
const LOOK: &str = r"
    local epoch = tonumber(redis.call('GET', KEYS[1]..':epoch') or '0')
    return {1, epoch, redis.call('GET', KEYS[1]..':lease') or ''}";
const RELEASE: &str = r"
    if redis.call('GET', KEYS[1]..':lease') ~= ARGV[1] then return 0 end
    return redis.call('DEL', KEYS[1]..':lease')";
const WRITE: &str = r"
    local version = tonumber(redis.call('GET', KEYS[1]..':version') or '0')
    if ARGV[2] ~= '' and tonumber(ARGV[2]) ~= version then return {0, version} end
    if redis.call('GET', KEYS[1]..':value') == ARGV[1] then return {2, version} end
    redis.call('SET', KEYS[1]..':value', ARGV[1])
    return {1, redis.call('INCR', KEYS[1]..':version')}";
const READ: &str = r"
    local version = tonumber(redis.call('GET', KEYS[1]..':version') or '0')
    return {version, redis.call('GET', KEYS[1]..':value') or ''}";

/// One Redis, without a server of ours.
pub struct Plain {
    pub redis: MultiplexedConnection,
    pub lease: Duration,
}

impl Register for Plain {
    const WAYS: usize = 1;

    async fn attempt(&self, _: usize, operation: &Operation, _: &str, freeze: Duration) -> Answer {
        match self.call(operation, freeze).await {
            Ok(outcome) => Answer::Known(outcome),
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }
}

impl Plain {
    async fn call(&self, asked: &Operation, freeze: Duration) -> redis::RedisResult<Outcome> {
        let name = &asked.application;
        let ok = Outcome { kind: "ok", changed: true, ..Default::default() };
        match asked.operation {
            "read" => {
                let (version, value) = self.run(READ, name, &[]).await?;
                Ok(Outcome { version, value, ..ok })
            }
            "read_status" => {
                let (_, value): (u64, String) =
                    self.run(READ, &format!("{name}:status"), &[]).await?;
                Ok(Outcome { value, ..ok })
            }
            "claim" => self.claim(asked, "held").await,
            "leader" => Ok(self.look(name).await?),
            _ => {
                let seen = self.look(name).await?;
                if seen.holder != asked.unit || seen.epoch != asked.epoch {
                    return Ok(Outcome { kind: "not_leader", ..seen });
                }
                tokio::time::sleep(freeze).await;
                self.change(asked, seen).await
            }
        }
    }

    /// Does what only the leader may do, some time after the check that it is the leader.
    async fn change(&self, asked: &Operation, seen: Outcome) -> redis::RedisResult<Outcome> {
        let name = &asked.application;
        match asked.operation {
            "renew" => self.claim(asked, "not_leader").await,
            "release" => {
                let released: u8 = self.run(RELEASE, name, &[&asked.unit]).await?;
                Ok(Outcome { changed: released == 1, ..seen })
            }
            "set_status" => {
                let (kind, version): (u8, u64) =
                    self.run(WRITE, &format!("{name}:status"), &[&asked.value, ""]).await?;
                Ok(Outcome { changed: kind == 1, version, ..seen })
            }
            _ => {
                let expected = asked.expected.map_or(String::new(), |version| version.to_string());
                let (kind, version): (u8, u64) =
                    self.run(WRITE, name, &[&asked.value, &expected]).await?;
                let changed = kind == 1;
                let kind = if kind == 0 { "mismatch" } else { "ok" };
                Ok(Outcome { kind, version, changed, ..Default::default() })
            }
        }
    }

    async fn claim(&self, asked: &Operation, refused: &'static str) -> redis::RedisResult<Outcome> {
        let arguments = [&*asked.unit, &self.lease.as_millis().to_string()];
        let (granted, epoch, holder): (u8, _, _) =
            self.run(CLAIM, &asked.application, &arguments).await?;
        let kind = if granted == 1 { "ok" } else { refused };
        Ok(Outcome { kind, epoch, holder, changed: true, ..Default::default() })
    }

    async fn look(&self, name: &str) -> redis::RedisResult<Outcome> {
        let (_, epoch, holder): (u8, _, _) = self.run(LOOK, name, &[]).await?;
        Ok(Outcome { kind: "ok", epoch, holder, ..Default::default() })
    }

    async fn run<T: redis::FromRedisValue>(
        &self,
        script: &str,
        name: &str,
        arguments: &[&str],
    ) -> redis::RedisResult<T> {
        let script = Script::new(script);
        let mut call = script.key(name);
        for argument in arguments {
            call.arg(argument);
        }
        call.invoke_async(&mut self.redis.clone()).await
    }
}
