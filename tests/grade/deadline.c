// Dates and times, and what is taken off a score for lateness.
#include "tests/grade/assignment.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE = 60, HOUR = 3600, DAY = 86400, MAX_OFFSET = 14 * HOUR };

// ---- reading ------------------------------------------------------------------------------------

// Days from 1970-01-01 to a date of the Gregorian calendar, counted in years that begin in March
// (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
static int64_t days_of(int year, int month, int day) {
    const int64_t y = year - (month <= 2 ? 1 : 0);
    const int64_t era = y / 400;
    const int64_t year_of_era = y - era * 400;
    const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static int days_in(int year, int month) {
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int days[] = {31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1];
}

// Takes exactly `digits` digits and then `after` (0: nothing) from *text. False when they are not
// there, or the number is not between the two.
static bool take_number(const char **text, int digits, char after, int least, int most,
                        int *value) {
    *value = 0;
    for (int i = 0; i < digits; i++, (*text)++) {
        if (!isdigit((unsigned char)**text)) {
            return false;
        }
        *value = 10 * *value + (**text - '0');
    }
    if (after != '\0' && *(*text)++ != after) {
        return false;
    }
    return *value >= least && *value <= most;
}

// "", "Z", "-08:00", "+0530", perhaps after blanks.
static bool take_offset(const char *text, Moment *moment) {
    const int sign = text[strspn(text, " \t")] == '-' ? -1 : 1;
    int hours;
    int minutes;

    text += strspn(text, " \t");
    if (*text == '\0') {
        return true;
    }
    moment->has_offset = true;
    if (strcmp(text, "Z") == 0) {
        return true;
    }
    if (*text != '+' && *text != '-') {
        return false;
    }
    text++;
    if (!take_number(&text, 2, '\0', 0, 14, &hours)) {
        return false;
    }
    text += *text == ':' ? 1 : 0;
    if (!take_number(&text, 2, '\0', 0, 59, &minutes) || *text != '\0') {
        return false;
    }
    moment->offset = sign * (HOUR * hours + MINUTE * minutes);
    return moment->offset >= -MAX_OFFSET && moment->offset <= MAX_OFFSET;
}

bool parse_moment(const char *text, Moment *moment) {
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second = 0;

    *moment = (Moment){0};
    if (!take_number(&text, 4, '-', 1970, 9999, &year) ||
        !take_number(&text, 2, '-', 1, 12, &month) ||
        !take_number(&text, 2, '\0', 1, days_in(year, month), &day) ||
        (*text != 'T' && *text != ' ' && *text != '\t')) {
        return false;
    }
    text += *text == 'T' ? 1 : strspn(text, " \t");
    if (!take_number(&text, 2, ':', 0, 23, &hour) || !take_number(&text, 2, '\0', 0, 59, &minute)) {
        return false;
    }
    if (*text == ':') {
        text++;
        if (!take_number(&text, 2, '\0', 0, 60, &second)) {
            return false;
        }
        if (*text == '.' && isdigit((unsigned char)text[1])) {
            text += 1 + strspn(text + 1, "0123456789");
        }
    }
    moment->seconds = DAY * days_of(year, month, day) + HOUR * hour + MINUTE * minute + second;
    return take_offset(text, moment);
}

// ---- lateness -----------------------------------------------------------------------------------

// Seconds from `due` to `time`. Where one of them has no offset, both are of the same clock.
static int64_t seconds_after(const Moment *time, const Moment *due) {
    const bool both = time->has_offset && due->has_offset;

    return time->seconds - due->seconds - (both ? time->offset - due->offset : 0);
}

// The periods that have begun, each taking its percent off.
static int percent_off(const Assignment *assignment, int64_t late) {
    int64_t periods;

    if (assignment->percent == 0) {
        return 0;
    }
    periods = (late + assignment->period - 1) / assignment->period;
    return periods * assignment->percent < assignment->most ? (int)(periods * assignment->percent)
                                                            : assignment->most;
}

// "3 h 20 min late", to be freed.
static char *how_late(int64_t late) {
    const long long minutes = (late + MINUTE - 1) / MINUTE;
    const long long days = minutes / (24 * 60);
    const long long hours = minutes / 60 % 24;

    if (days > 0) {
        return format_text("%lld day%s %lld h late", days, days == 1 ? "" : "s", hours);
    }
    if (hours > 0) {
        return format_text("%lld h %lld min late", hours, minutes % 60);
    }
    return format_text("%lld min late", minutes);
}

void apply_lateness(const Assignment *assignment, ChapterResult *chapter) {
    Moment time;
    int64_t late;

    chapter->final = chapter->earned;
    chapter->due = assignment->due != NULL ? copy_text(assignment->due) : NULL;
    if (assignment->due == NULL || options.submitted == NULL ||
        !parse_moment(options.submitted, &time)) {
        return;
    }
    late = seconds_after(&time, &assignment->due_moment);
    if (late <= 0) {
        chapter->lateness = copy_text("in time");
        return;
    }
    chapter->percent = percent_off(assignment, late);
    chapter->lateness = how_late(late);
    // What is taken off is rounded down, to whole hundredths of a point.
    chapter->final -= (int)((int64_t)chapter->earned * chapter->percent / 100);
}
