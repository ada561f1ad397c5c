package rule_test

import (
	"testing"

	"github.com/rulewire/rulewire/rule"
)

// faults: F126 F173
func TestLoadBehindTheStoresBackIsSeenAsDrift(t *testing.T) {
	m := rule.NewManager[rule.Flow]()
	store := []rule.Flow{{Resource: "a", LimitApp: "default", Grade: rule.GradeQPS, Count: 1}}
	if err := m.OnUpdate(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if !m.InForce() {
		t.Fatal("drift without anybody's doing")
	}
	console := []rule.Flow{{Resource: "a", LimitApp: "default", Grade: rule.GradeQPS, Count: 2}}
	if _, err := m.Load(console); err != nil {
		t.Fatal(err)
	}
	if m.InForce() {
		t.Fatal("a console's edit goes unseen")
	}
	if err := m.OnUpdate(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if !m.InForce() {
		t.Fatal("still drifting")
	}
}
