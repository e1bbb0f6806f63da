#pragma once
/*
 * A mutex that is held to the end of the block:
 *
 *	LOCK_AUTO(&queue->lock);
 *	queue->waiting++;
 *	return queue->waiting > QUEUE_MAX;
 *
 * A block has at most one.  pthread_mutex_lock fails only by misuse, so errors are ignored.
 *
 * Thread: any
 */
#include <pthread.h>

static inline pthread_mutex_t *lock_take(pthread_mutex_t *lock)
{
	(void)pthread_mutex_lock(lock);
	return lock;
}

static inline void lock_release(pthread_mutex_t **lock)
{
	(void)pthread_mutex_unlock(*lock);
}

#define LOCK_AUTO(lock)                                                                            \
	__attribute__((cleanup(lock_release), unused)) pthread_mutex_t *lock_held = lock_take(lock)
