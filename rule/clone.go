package rule

import "slices"

// RuleKey is the resource.
func (r *Flow) RuleKey() string { return r.Resource }

// RuleKey is the resource.
func (r *Degrade) RuleKey() string { return r.Resource }

// RuleKey is "": system rules are about the whole process.
func (r *System) RuleKey() string { return "" }

// RuleKey is the resource.
func (r *Authority) RuleKey() string { return r.Resource }

// OnePerKey is true: the first rule of a resource is the one in effect, as in Java.
func (r *Authority) OnePerKey() bool { return true }

// RuleKey is the resource.
func (r *ParamFlow) RuleKey() string { return r.Resource }

// RuleKey is the resource.
func (r *Isolation) RuleKey() string { return r.Resource }

// Clone copies the rule with everything it points to.
func (r *Flow) Clone() Flow {
	c := *r
	c.Extra = slices.Clone(r.Extra)
	if r.ClusterConfig != nil {
		cc := *r.ClusterConfig
		cc.FlowID = cloneID(cc.FlowID)
		cc.Extra = slices.Clone(cc.Extra)
		c.ClusterConfig = &cc
	}
	return c
}

// Clone copies the rule with everything it points to.
func (r *Degrade) Clone() Degrade {
	c := *r
	c.Extra = slices.Clone(r.Extra)
	return c
}

// Clone copies the rule with everything it points to.
func (r *System) Clone() System {
	c := *r
	c.Extra = slices.Clone(r.Extra)
	return c
}

// Clone copies the rule with everything it points to.
func (r *Authority) Clone() Authority {
	c := *r
	c.Extra = slices.Clone(r.Extra)
	return c
}

// Clone copies the rule with everything it points to.
func (r *ParamFlow) Clone() ParamFlow {
	c := *r
	c.Extra = slices.Clone(r.Extra)
	c.Items = slices.Clone(r.Items)
	for i := range c.Items {
		c.Items[i].Extra = slices.Clone(c.Items[i].Extra)
	}
	if r.ClusterConfig != nil {
		cc := *r.ClusterConfig
		cc.FlowID = cloneID(cc.FlowID)
		cc.Extra = slices.Clone(cc.Extra)
		c.ClusterConfig = &cc
	}
	return c
}

// Clone copies the rule with everything it points to.
func (r *Isolation) Clone() Isolation {
	c := *r
	c.Extra = slices.Clone(r.Extra)
	return c
}

func cloneID(id *int64) *int64 {
	if id == nil {
		return nil
	}
	return new(*id)
}

// RuleID is the rule's ID.
func (r *Flow) RuleID() string { return r.ID }

// RuleID is the rule's ID.
func (r *Degrade) RuleID() string { return r.ID }

// RuleID is the rule's ID.
func (r *System) RuleID() string { return r.ID }

// RuleID is the rule's ID.
func (r *Authority) RuleID() string { return r.ID }

// RuleID is the rule's ID.
func (r *ParamFlow) RuleID() string { return r.ID }

// RuleID is the rule's ID.
func (r *Isolation) RuleID() string { return r.ID }
