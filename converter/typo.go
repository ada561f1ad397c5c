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

// reach is how many edits away from a known name a name still counts as its misspelling. Short names have none: too
// many other words are one letter away from "id" or "qps".
func reach(known string) int {
	switch n := len(known); {
	case n <= 3:
		return 0
	case n <= 7:
		return 1
	}
	return 2
}

// near says whether name is a misspelling of known; both are folded.
func near(name, known string) bool {
	most := reach(known)
	if d := len(name) - len(known); most == 0 || d > most || -d > most {
		return false
	}
	return distance(name, known) <= most
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
