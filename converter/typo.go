package converter

import "strings"

// fold is a name as fastjson compares it: without case, "_" and "-".
func fold(name string) string {
	clean := true
	for i := range len(name) {
		if b := name[i]; b == '_' || b == '-' || 'A' <= b && b <= 'Z' {
			clean = false
			break
		}
	}
	if clean {
		return name
	}
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// near says whether name is a misspelling of known; both are folded. Refusing a document for a member that somebody means
// is worse than missing a slip in a short name, so that short names leave less room:
//
//	up to 3 letters  none: too many other words are one letter away from "id" or "qps"
//	4 to 7           one edit that leaves the beginning alone and adds no ending but "s"; "trade" and "grader" are words beside "grade"
//	8 and 9          one edit; in 9, also a letter that moved ("tresholds")
//	10 and more      two edits behind the first letter, but not two replaced letters: "minQueueingTimeMs" is not "maxQueueingTimeMs"
func near(name, known string) bool {
	longer := len(name) - len(known)
	if len(known) <= 3 || name == "" || longer < -2 || longer > 2 {
		return false
	}
	switch distance(name, known) {
	case 0:
		return true
	case 1:
		return len(known) >= 8 || sameStart(name, known) && (longer < 1 || !strings.HasPrefix(name, known) || name[len(known)] == 's')
	case 2:
		return (len(known) >= 10 || len(known) == 9 && longer == 0) && name[0] == known[0] && !replaced(name, known)
	}
	return false
}

// sameStart says whether two names begin with the same letter, or with the same two swapped.
func sameStart(a, b string) bool {
	return a[0] == b[0] || len(a) > 1 && a[0] == b[1] && a[1] == b[0]
}

// replaced says whether two names two edits apart differ in two letters, each in its place.
func replaced(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	differ := 0
	for i := range len(a) {
		if a[i] != b[i] {
			differ++
		}
	}
	return differ == 2
}

// continues says whether name is a known name with a new word behind it: resourceId, limitAppName, count2.
func continues(name, known string) bool {
	if len(name) <= len(known) || !strings.HasPrefix(name, known) {
		return false
	}
	next := name[len(known)]
	return next == '_' || next == '-' || 'A' <= next && next <= 'Z' || '0' <= next && next <= '9'
}

// distance is the Damerau-Levenshtein distance (adjacent swaps, each substring edited once): the number of letters
// inserted, deleted, replaced or swapped with their neighbour. Names are short: near has bounded both.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
