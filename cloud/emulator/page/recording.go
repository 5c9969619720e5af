// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Recording is what a stream sent, with the times. As a file it is gzipped JSON lines: an [About], and then each [Event]. A state repeats most
// of the one before, so gzip alone makes a file of differences.
type Recording struct {
	About  About
	Events []Event
}

// About describes what was recorded.
type About struct {
	Name    string    `json:"name"`        // such as make demo
	Version string    `json:"version"`     // of the program that ran
	Seed    int64     `json:"seed,string"` // of the portal. JavaScript has no numbers of this size
	Begin   time.Time `json:"begin"`
}

// Event is one event of a stream.
type Event struct {
	At   int64           `json:"at"` // milliseconds since the beginning
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// maxEvent is the size of the largest event that can be recorded. A state of hundreds of clusters is smaller.
const maxEvent = 16 << 20

// Record writes the events of a stream (GET /events), as they come, until the stream ends. It sets About.Begin.
func Record(w io.Writer, about About, stream io.Reader) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	about.Begin = time.Now().UTC()
	out := json.NewEncoder(zipped)
	if err := out.Encode(about); err != nil {
		return err
	}
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	var name string
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "event":
			name = value
		case "data":
			event := Event{At: time.Since(about.Begin).Milliseconds(), Name: name, Data: json.RawMessage(value)}
			if err := out.Encode(event); err != nil {
				return err
			}
		}
	}
	return errors.Join(lines.Err(), zipped.Close())
}

// ReadRecording reads a recording. It refuses one that is not exactly what today's page is made for: a program with other fields recorded it.
func ReadRecording(data []byte) (*Recording, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(zipped)
	in.DisallowUnknownFields()
	r := &Recording{}
	if err := in.Decode(&r.About); err != nil {
		return nil, err
	}
	for {
		var event Event
		switch err := in.Decode(&event); {
		case errors.Is(err, io.EOF):
			return r, r.complete()
		case err != nil:
			return nil, err
		}
		if err := event.check(); err != nil {
			return nil, fmt.Errorf("%s after %d ms: %w", event.Name, event.At, err)
		}
		r.Events = append(r.Events, event)
	}
}

// complete returns an error if nothing is known of the recording, or if it has nothing to show.
func (r *Recording) complete() error {
	if r.About.Name == "" || r.About.Version == "" || r.About.Begin.IsZero() {
		return fmt.Errorf("the recording does not say what it is of: %+v", r.About)
	}
	if len(r.Events) == 0 || r.Events[0].Name != stateEvent {
		return errors.New("the recording does not begin with a state")
	}
	return nil
}

// check returns an error if the data of an event has unknown fields, or lacks fields that a stream always sends.
func (e Event) check() error {
	var value any
	switch e.Name {
	case stateEvent:
		value = &state{}
	case logEvent:
		value = &[]emulator.LogEntry{}
	case historyEvent:
		value = &[]Moment{}
	default:
		return errors.New("no such event")
	}
	in := json.NewDecoder(bytes.NewReader(e.Data))
	in.DisallowUnknownFields()
	if err := in.Decode(value); err != nil {
		return err
	}
	today, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var was, is any
	if err := errors.Join(json.Unmarshal(e.Data, &was), json.Unmarshal(today, &is)); err != nil {
		return err
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("fields are missing that a stream sends today")
	}
	return nil
}
