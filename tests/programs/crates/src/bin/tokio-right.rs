//! tokio's runtime with several threads, its locks, channels and notifications.
use std::sync::Arc;
use tokio::sync::{Barrier, Mutex, Notify, RwLock, Semaphore, broadcast, mpsc, oneshot, watch};

#[derive(Default)]
struct Shared {
    count: Mutex<(u64, u64)>,
    table: RwLock<Vec<u64>>,
}

async fn add(shared: &Shared, value: u64) {
    let mut count = shared.count.lock().await;
    count.0 += value;
    count.1 = count.0 * 2;
    shared.table.write().await.push(value);
}

async fn sum(shared: &Shared) -> u64 {
    shared.table.read().await.iter().sum()
}

async fn worker(shared: Arc<Shared>, results: mpsc::Sender<u64>, permits: Arc<Semaphore>) {
    for value in 0..20 {
        let _permit = permits.acquire().await.unwrap();
        add(&shared, value).await;
        results.send(value).await.unwrap();
        tokio::task::yield_now().await;
    }
}

async fn run() {
    let shared = Arc::new(Shared::default());
    let permits = Arc::new(Semaphore::new(2));
    let (sender, mut receiver) = mpsc::channel(4);
    let workers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(worker(shared.clone(), sender.clone(), permits.clone())))
        .collect();
    drop(sender);
    let mut received = 0;
    while let Some(value) = receiver.recv().await {
        received += value;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!((received, sum(&shared).await), (570, 570));

    let (question, answer) = (oneshot::channel::<u64>(), oneshot::channel::<u64>());
    let asked = tokio::spawn(async move { answer.0.send(question.1.await.unwrap() * 2).unwrap() });
    question.0.send(21).unwrap();
    assert_eq!(answer.1.await, Ok(42));
    asked.await.unwrap();

    let (state, mut seen) = watch::channel(0);
    let (news, mut heard) = broadcast::channel(8);
    let (notify, barrier) = (Arc::new(Notify::new()), Arc::new(Barrier::new(2)));
    let (notified, met) = (notify.clone(), barrier.clone());
    let other = tokio::spawn(async move {
        notified.notified().await;
        met.wait().await;
        seen.wait_for(|&state| state == 3).await.unwrap();
        heard.recv().await.unwrap()
    });
    notify.notify_one();
    barrier.wait().await;
    news.send(5).unwrap();
    (1..=3).for_each(|value| state.send(value).unwrap());
    assert_eq!(other.await.unwrap(), 5);
}

fn main() {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
        .block_on(run());
}
