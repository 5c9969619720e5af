// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// faultTimes are a fault's durations as text, such as "1m30s", in JSON.
type faultTimes struct {
	ForText       string `json:"for,omitempty"`
	DelayText     string `json:"delay,omitempty"`
	DelayUpToText string `json:"delayUpTo,omitempty"`
	RetryText     string `json:"retryAfter,omitempty"`
	JobDelayText  string `json:"jobDelay,omitempty"`
	DrainText     string `json:"drain,omitempty"`
	ClockSkewText string `json:"clockSkew,omitempty"`
}

type plainFault Fault

// MarshalJSON writes durations as text.
func (f Fault) MarshalJSON() ([]byte, error) {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return json.Marshal(struct {
		plainFault
		faultTimes
	}{plainFault(f), faultTimes{
		text(f.For), text(f.Delay), text(f.DelayUpTo), text(f.RetryAfter), text(f.JobDelay), text(f.Drain), text(f.ClockSkew),
	}})
}

// UnmarshalJSON reads durations as text and refuses unknown members.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var in struct {
		plainFault
		faultTimes
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return err
	}
	*f = Fault(in.plainFault)
	return errors.Join(
		parseDuration("for", in.ForText, &f.For),
		parseDuration("delay", in.DelayText, &f.Delay),
		parseDuration("delayUpTo", in.DelayUpToText, &f.DelayUpTo),
		parseDuration("retryAfter", in.RetryText, &f.RetryAfter),
		parseDuration("jobDelay", in.JobDelayText, &f.JobDelay),
		parseDuration("drain", in.DrainText, &f.Drain),
		parseDuration("clockSkew", in.ClockSkewText, &f.ClockSkew))
}

func parseDuration(name, text string, into *time.Duration) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = d
	return nil
}

// ParseFaults reads one fault or a list of faults from JSON.
func ParseFaults(data []byte) ([]Fault, error) {
	data = bytes.TrimSpace(data)
	if !bytes.HasPrefix(data, []byte("[")) {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	var out []Fault
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return out, nil
}
