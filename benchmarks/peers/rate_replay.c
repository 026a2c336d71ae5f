/* The loop of spark_jobs/quota/rate_kernel.py in C, over the same arrays. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { RECORD_AND_UNRECORD = 1, RECORD_ONLY = 2, NOT_MEASURED = -1, NO_THROTTLE_MAX = -1 };
#define AT_ONCE_MS INT64_MIN
#define NEVER_MS ((int64_t)1 << 62)
#define WHOLE_MAX 0x1p53
#define UNLIMITED 0x1p63

/* What was last seen of a sensor's samples. */
typedef struct {
    int64_t due_ms, start_ms, oldest, oldest_start_ms;
    double others, before, room;
} Seen;

static int64_t rounded(double x) {
    if (isnan(x)) return 0;
    if (x >= 0x1p63) return INT64_MAX;
    if (x < -0x1p63) return INT64_MIN;
    double whole = floor(x);
    return (int64_t)(whole + (double)(x - whole >= 0.5));
}

static int64_t throttle_time_ms(double rate, double bound, int64_t size_ms, int64_t max_ms) {
    if (rate <= bound || size_ms == 0) return 0;
    int64_t delay_ms = rounded((rate - bound) / bound * (double)size_ms);
    if (max_ms != NO_THROTTLE_MAX && delay_ms > max_ms) delay_ms = max_ms;
    return (int32_t)delay_ms;
}

static int64_t window_size(int64_t elapsed_ms, int64_t samples, int64_t window_ms, bool zero) {
    int64_t full_min_ms = (samples - 1) * window_ms;
    if (elapsed_ms < full_min_ms) elapsed_ms = full_min_ms + elapsed_ms % window_ms;
    return zero || elapsed_ms > 1 ? elapsed_ms : 1;
}

static double attempted_amount(int64_t throttle_ms, double bound, int64_t size_ms, double held) {
    double amount = bound * (double)(throttle_ms + size_ms) / 1000.0 - held;
    if (amount < 0.0) amount = 0.0;
    double whole = floor(amount + 0.5), rate = (held + whole) / ((double)size_ms / 1000.0);
    bool is_it = throttle_time_ms(rate, bound, size_ms, NO_THROTTLE_MAX) == throttle_ms;
    return is_it ? whole : amount;
}

static int64_t purge(Seen *seen, int64_t now_ms, int64_t current, int64_t count, int64_t age_ms,
                     bool keeps, int64_t *start_ms, int64_t *last_event_ms, double *value) {
    int64_t margin_ms = INT64_MAX, due_ms = NEVER_MS, oldest = 0, oldest_start_ms = INT64_MAX;
    double others = 0.0, before = 0.0, size = 0.0;
    bool is_whole = true;
    for (int64_t slot = 0; slot < count; slot++) {
        int64_t begun_ms = start_ms[slot];
        int64_t reference_ms = keeps ? last_event_ms[slot] : begun_ms;
        int64_t overdue_ms = now_ms - reference_ms - age_ms;
        int64_t distance_ms = overdue_ms < 0 ? -overdue_ms : overdue_ms;
        if (distance_ms < margin_ms) margin_ms = distance_ms;
        if (overdue_ms >= 0) {
            start_ms[slot] = last_event_ms[slot] = begun_ms = reference_ms = now_ms;
            value[slot] = 0.0;
        }
        bool is_held = slot == current || (oldest != current && value[slot] > value[oldest]);
        if (begun_ms < oldest_start_ms || (begun_ms == oldest_start_ms && is_held)) {
            oldest = slot;
            oldest_start_ms = begun_ms;
        }
        if (slot == current) {
            before = others;
        } else {
            others += value[slot];
            size += fabs(value[slot]);
            is_whole &= floor(value[slot]) == value[slot];
        }
        if ((slot != current || !keeps) && reference_ms + age_ms < due_ms)
            due_ms = reference_ms + age_ms;
    }
    *seen = (Seen){due_ms, start_ms[current], oldest, oldest_start_ms,
                   others, before, is_whole ? WHOLE_MAX - size : -1.0};
    return margin_ms;
}

static double total_of(const Seen *seen, double held, int64_t current, int64_t count,
                       const double *value) {
    if (fabs(held) <= seen->room && floor(held) == held) return seen->others + held;
    double total = seen->before + held;
    for (int64_t slot = current + 1; slot < count; slot++) total += value[slot];
    return total;
}

/* Returns 0, or 1 where there is no memory. */
int replay_rate(int64_t rows, int64_t sensors, int64_t slots, const int64_t *sensor,
                const int64_t *recorded_at_ms, const double *bound, const int8_t *behaviour,
                const int64_t *logged_ms, const int64_t *throttle_max_ms,
                const int8_t *keeps_overlapping, const int8_t *allows_zero_window,
                const int64_t *samples, const int64_t *window_ms, int64_t *all_start_ms,
                int64_t *all_last_event_ms, double *all_value, int64_t *count, int64_t *index,
                double *out_amount, double *out_rate, int64_t *out_window_size_ms,
                int64_t *out_throttle_time_ms, double *out_oldest_value,
                int64_t *out_purge_margin_ms) {
    Seen *all_seen = malloc((size_t)sensors * sizeof *all_seen), seen = {0};
    if (!all_seen) return 1;
    for (int64_t s = 0; s < sensors; s++) all_seen[s].due_ms = AT_ONCE_MS;
    int64_t open = -1, current = 0, n = 0, window = 0, age_ms = 0;
    int64_t *start_ms = NULL, *last_event_ms = NULL;
    double *value = NULL, held = 0.0;
    bool keeps = false;
    for (int64_t i = 0; i < rows; i++) {
        if (sensor[i] != open) {
            open = sensor[i];
            current = index[open];
            n = count[open];
            start_ms = all_start_ms + open * slots;
            last_event_ms = all_last_event_ms + open * slots;
            value = all_value + open * slots;
            held = value[current];
            keeps = keeps_overlapping[open] != 0;
            window = window_ms[open];
            age_ms = samples[open] * window;
            seen = all_seen[open];
            if (seen.due_ms == AT_ONCE_MS) seen.start_ms = start_ms[current];
        }
        int64_t now_ms = recorded_at_ms[i];
        if (n == 0 || now_ms - seen.start_ms >= window) {
            if (n > 0) current = current + 1 < samples[open] + keeps ? current + 1 : 0;
            if (current >= n) n = current + 1;
            index[open] = current;
            count[open] = n;
            start_ms[current] = seen.start_ms = now_ms;
            held = 0.0;
            all_seen[open].due_ms = seen.due_ms = AT_ONCE_MS;
        }
        double amount = out_amount[i], recorded = isnan(amount) ? 0.0 : amount;
        held += recorded;
        value[current] = held;
        last_event_ms[current] = now_ms;
        if (behaviour[i] == RECORD_ONLY) {
            out_rate[i] = out_oldest_value[i] = NAN;
            out_window_size_ms[i] = NOT_MEASURED;
            out_throttle_time_ms[i] = 0;
            out_purge_margin_ms[i] = INT64_MAX;
            continue;
        }
        int64_t margin_ms = seen.due_ms - now_ms;
        if (now_ms >= seen.due_ms) {
            margin_ms = purge(&seen, now_ms, current, n, age_ms, keeps, start_ms, last_event_ms,
                              value);
            all_seen[open] = seen;
        } else if (keeps && age_ms < margin_ms) {
            margin_ms = age_ms;
        }
        double total = total_of(&seen, held, current, n, value);
        int64_t size_ms = window_size(now_ms - seen.oldest_start_ms, samples[open], window,
                                      allows_zero_window[open] != 0);
        bool is_unrecorded = behaviour[i] == RECORD_AND_UNRECORD && logged_ms[i] > 0;
        if (is_unrecorded && isnan(amount) && !isnan(bound[i])) {
            recorded = attempted_amount(logged_ms[i], bound[i], size_ms, total);
            out_amount[i] = recorded;
            held += recorded;
            value[current] = held;
            total = total_of(&seen, held, current, n, value);
        }
        double rate = total / ((double)size_ms / 1000.0);
        double in_force = isnan(bound[i]) ? UNLIMITED : bound[i];
        out_rate[i] = rate;
        out_window_size_ms[i] = size_ms;
        out_throttle_time_ms[i] = throttle_time_ms(rate, in_force, size_ms, throttle_max_ms[i]);
        out_oldest_value[i] = value[seen.oldest];
        out_purge_margin_ms[i] = margin_ms;
        if (is_unrecorded) {
            held -= recorded;
            value[current] = held;
        }
    }
    free(all_seen);
    return 0;
}
