// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) volumesCommand() *cobra.Command {
	return group("volumes", "Volumes (the portal's API can only delete them)", a.volumesDelete())
}

func (a *app) volumesDelete() *cobra.Command {
	var yes bool
	var w waiting
	cmd := &cobra.Command{
		Use:   "delete VOLUME_ID...",
		Short: "Delete volumes with the data on them",
		Long: `Delete volumes with the data on them. The volumes of a cluster are not deleted with it. Delete them with this command.

With - as an id, it reads ids from standard input, one per line. After --password-stdin, they follow the line with the password.
It says what happened to each volume. A volume that the portal does not know is no failure, so you can repeat the command.`,
		Example: "  portalctl volumes delete volume-1 volume-2\n  portalctl volumes delete --yes - < ids.txt",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.runs(func(ctx context.Context, args []string) error {
			config, err := a.credentials(ctx)
			if err != nil {
				return err
			}
			ids, err := a.volumeIDs(args)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				a.say("Standard input has no volume ids, so nothing was deleted.")
				return a.printVolumes([]volumeRecord{})
			}
			if err := a.confirm(ctx, yes, "Delete "+volumes(ids)+" with all data?"); err != nil {
				return err
			}
			client, err := a.open(ctx, config)
			if err != nil {
				return err
			}
			defer client.Close()
			return a.deleteVolumes(ctx, client, ids, w)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	w.bind(cmd)
	return cmd
}

// volumeIDs returns the ids of the arguments, each once. An id that is named twice would be refused as busy.
func (a *app) volumeIDs(args []string) ([]string, error) {
	var ids []string
	for _, arg := range args {
		if arg != "-" {
			ids = append(ids, arg)
			continue
		}
		lines := bufio.NewScanner(a.in)
		if a.connection.lines != nil {
			lines = bufio.NewScanner(a.connection.lines)
		}
		for lines.Scan() {
			if id := strings.TrimSpace(lines.Text()); id != "" {
				ids = append(ids, id)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read the volume ids: %w", err)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func volumes(ids []string) string {
	if len(ids) == 1 {
		return "volume " + ids[0]
	}
	return fmt.Sprintf("%d volumes (%s)", len(ids), strings.Join(ids, ", "))
}

// What became of a volume.
const (
	volumeDeleted   = "deleted"
	volumeGone      = "gone"      // the portal does not know it: it was deleted before, or is another account's
	volumeAsked     = "requested" // the job of the deletion runs
	volumeFailed    = "failed"
	volumeUnknown   = "unknown" // the portal's answer was lost
	volumeUntouched = "not requested"
)

// volumeRecord is what programs read about the deletion of a volume.
type volumeRecord struct {
	ID      string       `json:"id"`
	Outcome string       `json:"outcome"`
	JobID   string       `json:"jobId,omitempty"`
	Error   *errorRecord `json:"error,omitempty"`
}

// deleteVolumes deletes one volume after the other. It goes on after a failure that is about one volume only.
func (a *app) deleteVolumes(ctx context.Context, client *cloud.Client, ids []string, w waiting) error {
	records := make([]volumeRecord, len(ids))
	var first error
	gone, failures := 0, 0
	for i, id := range ids {
		records[i] = volumeRecord{ID: id, Outcome: volumeUntouched}
		code, _ := explain(first)
		if first != nil && !slices.Contains([]exitCode{exitRefused, exitLater, exitJobFailed}, code) {
			failures++
			continue
		}
		job, err := a.deleteVolume(ctx, client, id, w)
		records[i] = deleted(id, job, err)
		switch {
		case records[i].Outcome == volumeGone:
			gone++
		case err != nil:
			failures++
			first = cmp.Or(first, err)
		}
	}
	if gone > 0 {
		a.say("The portal does not know %d of %d volumes: they were deleted before, or belong to another account.", gone, len(ids))
	}
	if err := a.printVolumes(records); err != nil || first == nil {
		return err
	}
	switch code, advice := explain(first); {
	case code == exitInterrupted && failures < len(ids):
		first = &failure{code: code, err: fmt.Errorf("interrupted; %d of %d volumes were not deleted", failures, len(ids)), advice: repeatable(ctx)}
	case len(ids) > 1 && code != exitInterrupted:
		first = &failure{code: code, err: fmt.Errorf("%d of %d volumes were not deleted: %w", failures, len(ids), first), advice: advice}
	}
	return first
}

// deleteVolume deletes a volume, and follows the job if the portal answers with one.
func (a *app) deleteVolume(ctx context.Context, client *cloud.Client, id string, w waiting) (cloud.Job, error) {
	o := operation{kind: "volume", what: "delete of volume " + id, lost: repeatable}
	job, err := sendChange(ctx, a, client, w, o.what, func(ctx context.Context) (cloud.Job, error) { return client.DeleteVolume(ctx, id) })
	if err == nil && !job.Done() && !w.noWait {
		job, err = a.follow(ctx, client, o.kind, o.what+" ("+job.ID+")", job, w)
	}
	if err == nil {
		err = failed(job)
	}
	if err != nil {
		err = o.explained(ctx, err)
	}
	return job, err
}

// deleted returns what became of a volume.
func deleted(id string, job cloud.Job, err error) volumeRecord {
	r := volumeRecord{ID: id, JobID: job.ID}
	code, _ := explain(err)
	switch {
	case err == nil && job.Done():
		r.Outcome = volumeDeleted
	case job.ID == "" && code == exitNotFound:
		r.Outcome = volumeGone
		return r
	case job.ID != "" && !job.Done() && code != exitUnknown:
		r.Outcome = volumeAsked
	case code == exitUnknown:
		r.Outcome = volumeUnknown
	case code == exitInterrupted:
		r.Outcome = volumeUntouched
	default:
		r.Outcome = volumeFailed
	}
	if err != nil {
		r.Error = &errorRecord{Message: err.Error()}
	}
	if e, known := errors.AsType[*cloud.Error](err); known {
		r.Error.Code, r.Error.RequestID = string(e.Code), e.RequestID
	}
	return r
}

func (a *app) printVolumes(records []volumeRecord) error {
	t := table{header: []string{"VOLUME ID", "OUTCOME", "JOB ID", "ERROR"}}
	for _, r := range records {
		trouble := ""
		if r.Error != nil {
			trouble = r.Error.Message
		}
		t.rows = append(t.rows, []string{r.ID, r.Outcome, r.JobID, trouble})
	}
	return a.print(map[string]any{"volumes": records}, t)
}
