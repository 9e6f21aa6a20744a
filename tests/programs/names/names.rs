//! The same mistake with data of every kind: what is it called?
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, RwLock};
use std::thread;

struct Account {
    balance: Mutex<i64>,
    limit: AtomicU32,
}

struct Bank {
    accounts: [Account; 2],
}

static TOTAL: AtomicU32 = AtomicU32::new(0);
static BANK: Bank = Bank {
    accounts: [const {
        Account {
            balance: Mutex::new(0),
            limit: AtomicU32::new(0),
        }
    }; 2],
};

fn global() {
    let seen = TOTAL.load(SeqCst);
    TOTAL.store(seen + 1, SeqCst);
}

fn field() {
    let seen = *BANK.accounts[1].balance.lock().unwrap();
    *BANK.accounts[1].balance.lock().unwrap() = seen + 1;
}

fn shared(account: &Account) {
    let seen = account.limit.load(SeqCst);
    account.limit.store(seen + 1, SeqCst);
}

fn behind_a_lock(value: &Mutex<i64>) {
    let seen = *value.lock().unwrap();
    *value.lock().unwrap() = seen + 1;
}

fn element(list: &[AtomicU32]) {
    let seen = list[3].load(SeqCst);
    list[3].store(seen + 1, SeqCst);
}

fn local(count: &RwLock<u32>) {
    let seen = *count.read().unwrap();
    *count.write().unwrap() = seen + 1;
}

fn main() {
    let account = Arc::new(Account {
        balance: Mutex::new(0),
        limit: AtomicU32::new(0),
    });
    let value = Arc::new(Mutex::new(0));
    let list: Vec<AtomicU32> = (0..8).map(AtomicU32::new).collect();
    let count = RwLock::new(0);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        for name in ["teller", "clerk"] {
            let work = || {
                start.wait();
                for _ in 0..50 {
                    global();
                    field();
                    shared(&account);
                    behind_a_lock(&value);
                    element(&list);
                    local(&count);
                }
            };
            let builder = thread::Builder::new().name(name.to_owned());
            builder.spawn_scoped(scope, work).unwrap();
        }
    });
}
