// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State is the result of a health check.
type State string

// The states, in the words of Flux. Argo CD calls them Progressing, Healthy and Degraded.
const (
	InProgress State = "InProgress"
	Current    State = "Current"
	Failed     State = "Failed"
	Unknown    State = "Unknown"
)

// Check evaluates objects of one kind.
type Check func(*unstructured.Unstructured) (State, error)

// expressions is an entry of spec.healthCheckExprs of a Kustomization.
type expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	InProgress string `json:"inProgress,omitempty"`
	Failed     string `json:"failed,omitempty"`
	Current    string `json:"current"`
}

// Flux returns Flux's checks by kind.
func (p Page) Flux() (map[string]Check, error) {
	snippet := struct {
		HealthCheckExprs []expressions `json:"healthCheckExprs"`
	}{}
	if err := p.decode("### Flux", &snippet); err != nil {
		return nil, err
	}
	checks := map[string]Check{}
	for _, e := range snippet.HealthCheckExprs {
		check, err := e.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Kind, err)
		}
		checks[e.Kind] = check
	}
	return checks, nil
}

// compile compiles the expressions in the same CEL environment as Flux.
func (e expressions) compile() (Check, error) {
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders())
	if err != nil {
		return nil, err
	}
	type step struct {
		program cel.Program
		state   State
	}
	var steps []step
	for _, s := range []struct {
		expression string
		state      State
	}{{e.InProgress, InProgress}, {e.Failed, Failed}, {e.Current, Current}} { // the order in which Flux evaluates them
		if s.expression == "" {
			continue
		}
		ast, issues := env.Parse(s.expression)
		if issues.Err() != nil {
			return nil, issues.Err()
		}
		program, err := env.Program(ast)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{program, s.state})
	}
	return func(o *unstructured.Unstructured) (State, error) {
		if o.GetAPIVersion() != e.APIVersion {
			return Unknown, fmt.Errorf("the check is for %s, the object is %s", e.APIVersion, o.GetAPIVersion())
		}
		if observed, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); err != nil || found && observed != o.GetGeneration() {
			return InProgress, err
		}
		for _, s := range steps {
			holds, _, err := s.program.Eval(o.Object)
			if err != nil {
				return Unknown, err
			}
			if holds.Value() == true {
				return s.state, nil
			}
		}
		return InProgress, nil
	}, nil
}
