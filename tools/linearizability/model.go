package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// An application as one correct machine would keep it.
//
// Time is not in the history: a lease may lapse and another unit may be granted one between any two operations. So an
// answer under a higher epoch is always possible, and from then on nothing under a lower one, and nothing by another
// holder of the same epoch. That is the promise of an epoch.
type state struct {
	epoch  uint64
	holder string // Empty if the lease of this epoch has ended; unknown before an answer names the holder.
	// Of the data. Not exact after a write of unknown outcome: then the version is above this one.
	version uint64
	exact   bool
	value   string
	// The message that the leader has set for the application.
	status   string
	revision uint64
	// Every answered operation has its place.
	ended bool
}

const unknown = "unknown"

var model = porcupine.Model{
	Init: func() any { return state{exact: true} },
	Step: func(before, asked, answered any) (bool, any) {
		after := before.(state)
		if answered.(*output) == nil {
			legal := after.unanswered(asked.(input))
			return legal, after
		}
		legal := after.step(asked.(input), *answered.(*output))
		return legal, after
	},
	Equal:             func(a, b any) bool { return a.(state) == b.(state) },
	DescribeOperation: describe,
	DescribeState:     func(of any) string { return fmt.Sprintf("%+v", of.(state)) },
}

// Takes an operation into the state. Returns false if this state cannot give this answer.
func (s *state) step(asked input, answered output) bool {
	if answered.Revision != 0 {
		if answered.Revision < s.revision {
			return false
		}
		s.revision = answered.Revision
	}
	switch asked.operation + " " + answered.Kind {
	case "claim ok", "renew ok":
		return s.leads(answered.Epoch, asked.unit)
	case "claim held":
		return answered.Holder != asked.unit && s.leads(answered.Epoch, answered.Holder)
	case "renew not_leader", "release not_leader", "write not_leader", "set_status not_leader":
		if !s.isLedBy(answered) {
			return false
		}
		if s.epoch == asked.epoch && s.holder == asked.unit {
			s.holder = ""
			return answered.Holder == ""
		}
		return true
	case "release ok":
		if !answered.Changed {
			s.holder = ""
			return true
		}
		legal := s.leads(asked.epoch, asked.unit)
		s.holder = ""
		return legal
	case "leader ok":
		return s.isLedBy(answered)
	case "write ok":
		return s.leads(asked.epoch, asked.unit) && s.write(asked, answered)
	case "write mismatch":
		return s.leads(asked.epoch, asked.unit) && answered.Version != *asked.expected && s.hasVersion(answered.Version)
	case "read ok":
		return answered.Value == s.value && s.hasVersion(answered.Version)
	case "set_status ok":
		legal := s.leads(asked.epoch, asked.unit) && (answered.Changed || asked.value == s.status)
		s.status = asked.value
		return legal
	case "read_status ok":
		return answered.Value == s.status
	case "end ok":
		s.ended = true
		return true
	}
	panic("unknown operation: " + asked.operation + " " + answered.Kind)
}

// Takes an operation of unknown outcome into the state. It stands where it has its effect, or else at the end of the
// order: any other place would say the same, and the search would try them all.
func (s *state) unanswered(asked input) bool {
	if s.ended {
		return true
	}
	if s.epoch != asked.epoch || s.holder != asked.unit {
		return false
	}
	if asked.operation == "set_status" {
		s.status = asked.value
		return true
	}
	if asked.expected != nil && !s.hasVersion(*asked.expected) {
		return false
	}
	s.value, s.exact = asked.value, false
	return true
}

// A unit leads under this epoch.
func (s *state) leads(epoch uint64, unit string) bool {
	if s.epoch < epoch || s.epoch == epoch && s.holder == unknown {
		s.epoch, s.holder = epoch, unit
	}
	return s.epoch == epoch && s.holder == unit
}

// The leader, or the fact that there is none, is as an answer says. A lease whose time is over is none, although its
// end is not committed yet: a write that was decided before may still be committed under its epoch.
func (s *state) isLedBy(answered output) bool {
	if answered.Holder != "" {
		return s.leads(answered.Epoch, answered.Holder)
	}
	if s.epoch < answered.Epoch {
		s.epoch, s.holder = answered.Epoch, unknown
	}
	return s.epoch == answered.Epoch
}

func (s *state) write(asked input, answered output) bool {
	if asked.expected != nil && !s.hasVersion(*asked.expected) {
		return false
	}
	if !answered.Changed {
		return asked.value == s.value && s.hasVersion(answered.Version)
	}
	legal := s.version < answered.Version && asked.value != s.value
	s.version, s.exact, s.value = answered.Version, true, asked.value
	return legal
}

func (s *state) hasVersion(version uint64) bool {
	if !s.exact && s.version < version {
		s.version, s.exact = version, true
	}
	return s.exact && s.version == version
}

func describe(asked, answered any) string {
	in, out := asked.(input), answered.(*output)
	text := fmt.Sprintf("%s by %s", in.operation, in.unit)
	if in.epoch != 0 {
		text += fmt.Sprintf(" under %d", in.epoch)
	}
	if in.expected != nil {
		text += fmt.Sprintf(" at version %d", *in.expected)
	}
	if in.value != "" {
		text += fmt.Sprintf(" of %q", in.value)
	}
	if out == nil {
		return text + ": no answer"
	}
	return fmt.Sprintf("%s: %+v", text, *out)
}
