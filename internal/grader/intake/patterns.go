package intake

import (
	"cmp"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A claim is what a path says of whose file it is.
type claim struct {
	student    string    // what tells this student from all others: equal for all files of one student
	path       string    // of the student's part: a folder, or the file
	name       string    // as the path says
	lmsID      string    // the learning system's number, "" if the path has none
	assignment string    // of an nbgrader tree
	late       bool      // handed in late, says the path
	at         time.Time // of the attempt, zero if the path does not say
	version    int       // of a file that was handed in again under its name, 0 for the first
	leaf       string    // the file's name without what the learning system added
}

// How learning systems name what they export.
var (
	// lastfirst_LATE_12345_67890_hw4-1.ipynb: name, student's number, file's number. Canvas writes the name in lower case without spaces.
	canvas = regexp.MustCompile(`^([^_/]+?)(_LATE)?_(\d{2,})_(\d{2,})_(.+)$`)
	// Given Family_1234567_assignsubmission_file/hw4.ipynb, or _hw4.ipynb in place of the folder.
	moodle = regexp.MustCompile(`^(.+)_(\d+)_assignsubmission_[a-z]+(?:_(.*))?$`)
	// Homework 4_login_attempt_2026-10-01-12-00-00_hw4.ipynb; without a file's name it is the text that goes with the attempt.
	blackboard = regexp.MustCompile(`^(.*_)?([^_]+)_attempt_(\d{4}(?:-\d{2}){5})(?:_(.+)|\.txt)$`)
	// 12345-67890 - Given Family - Oct 1, 2026 1200 PM/hw4.ipynb: student's number, folder's number.
	brightspace = regexp.MustCompile(`^(\d+)-\d+ - (.+) - ([^/]+)$`)
	// again is how Canvas marks a file that was handed in again.
	again = regexp.MustCompile(`^(.+)-(\d{1,3})(\.[^.]+)$`)
)

// brightspaceTimes are the dates that Brightspace writes, by the language of the course.
var brightspaceTimes = []string{"Jan 2, 2006 0304 PM", "January 2, 2006 0304 PM", "2 Jan, 2006 0304 PM", "2 January, 2006 0304 PM", "Jan 2, 2006 1504", "2 January, 2006 1504"}

// shortHour is a time whose hour has one digit, which time.Parse takes for half of two.
var shortHour = regexp.MustCompile(` (\d{3})( [AP]M)?$`)

// byLMS reads a path, with slashes, that a learning system made. It reports false if none of the known ones did.
func byLMS(p string) (claim, bool) {
	parts := strings.Split(p, "/")
	last := len(parts) - 1
	for i, part := range parts {
		folder := i < last
		here := claim{path: path.Join(parts[:i+1]...), leaf: parts[last]}
		if m := moodle.FindStringSubmatch(part); m != nil && (folder || m[3] != "") {
			here.name, here.lmsID = m[1], m[2]
			if !folder {
				here.leaf = m[3]
			}
			if here.name == "Participant" { // marking is blind
				here.name += " " + here.lmsID
			}
			here.student = "moodle\x00" + m[1] + "\x00" + m[2]
			return here, true
		}
		if m := brightspace.FindStringSubmatch(part); m != nil && folder {
			here.lmsID, here.name, here.at = m[1], m[2], brightspaceTime(m[3])
			here.student = "brightspace\x00" + m[1] + "\x00" + m[2]
			return here, true
		}
		if folder {
			continue
		}
		if m := blackboard.FindStringSubmatch(part); m != nil {
			here.name, here.leaf = m[2], cmp.Or(m[4], "attempt.txt")
			here.at, _ = time.Parse("2006-01-02-15-04-05", m[3])
			// a login may hold the character that stands before it: two that end alike are still two
			here.student = "blackboard\x00" + m[1] + m[2]
			return here, true
		}
		if m := canvas.FindStringSubmatch(part); m != nil {
			here.name, here.late, here.lmsID, here.leaf = m[1], m[2] != "", m[3], m[5]
			if a := again.FindStringSubmatch(here.leaf); a != nil {
				here.leaf = a[1] + a[3]
				here.version, _ = strconv.Atoi(a[2])
			}
			here.student = "canvas\x00" + m[1] + "\x00" + m[3]
			return here, true
		}
	}
	return claim{}, false
}

func brightspaceTime(s string) time.Time {
	s = shortHour.ReplaceAllString(strings.TrimSpace(s), " 0$1$2")
	for _, layout := range brightspaceTimes {
		if at, err := time.Parse(layout, s); err == nil {
			return at
		}
	}
	return time.Time{}
}
