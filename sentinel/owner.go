package sentinel

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
)

// owners says which Rules has which of the core's rule managers. It is as global as those are: two Rules over one manager
// would each take the other's rules away, without a word.
var owners struct {
	sync.Mutex
	of map[string]*Rules
}

// managersOf are the core's managers that a kind's rules go to. A second Open that shares one of them is refused.
func managersOf(kind rule.Kind) []string {
	switch kind {
	case rule.KindFlow:
		return []string{"flow", "isolation"} // limits of threads are isolation rules there
	case rule.KindDegrade:
		return []string{"circuitbreaker"}
	case rule.KindSystem:
		return []string{"system"}
	case rule.KindParamFlow:
		return []string{"hotspot"}
	case rule.KindIsolation:
		return []string{"isolation"}
	default:
		return nil
	}
}

// claim takes the managers of kinds for r, all or none.
func claim(r *Rules, kinds map[rule.Kind]bool) error {
	owners.Lock()
	defer owners.Unlock()
	var taken []string
	for kind := range kinds {
		for _, m := range managersOf(kind) {
			if other := owners.of[m]; other != nil && other != r {
				taken = append(taken, m)
			}
		}
	}
	if len(taken) > 0 {
		slices.Sort(taken)
		return fmt.Errorf("sentinel.Open: %w: the core's %s rules belong to another Open of this process; give all sources to one, or close the other first",
			datasource.ErrConflict, strings.Join(slices.Compact(taken), " and "))
	}
	if owners.of == nil {
		owners.of = make(map[string]*Rules)
	}
	for kind := range kinds {
		for _, m := range managersOf(kind) {
			owners.of[m] = r
		}
	}
	return nil
}

// release gives up what r has claimed.
func release(r *Rules) {
	owners.Lock()
	defer owners.Unlock()
	for m, owner := range owners.of {
		if owner == r {
			delete(owners.of, m)
		}
	}
}
