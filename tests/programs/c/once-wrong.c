// Each thread looks once and acts once: there is one moment at which it can go wrong.
// finding: take_seat 14 18
#include <pthread.h>

enum { SEATS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int seats = SEATS;
static int sold;

static __attribute__((noinline)) int take_seat(void) {
    int left;
    pthread_mutex_lock(&lock);
    left = seats;
    pthread_mutex_unlock(&lock);
    if (left == 0) return 0;
    pthread_mutex_lock(&lock);
    seats = left - 1;
    sold++;
    pthread_mutex_unlock(&lock);
    return 1;
}

static void *customer(void *unused) {
    take_seat();
    return unused;
}

int main(void) {
    pthread_t customers[2];
    for (int i = 0; i < 2; i++) pthread_create(&customers[i], 0, customer, 0);
    for (int i = 0; i < 2; i++) pthread_join(customers[i], 0);
    return 0;
}
