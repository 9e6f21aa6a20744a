//! RoadRunner's log.

use crate::support::{lenient, read};
use atomsan_trace::{Format, Op};

const LOG: &str = "\
[main: RoadRunner starts]
@  Wr(0,@02.harness/Callback.startTime_J)  Final  Callback.java:5:6
@  Enter(0,elevator/Elevator.main([Ljava/lang/String;)V) from null
@   ARd(0,@03[0])  Final  Elevator.java:140:123
@   Start(0,1)
@   Acquire(1,@0F)
@   Enter(1,elevator/Lift.run()V) from null
@    VWr(1,null.elevator/Lift.stop_Z)  Shared  Lift.java:7:8
@    VRd(1,null.elevator/Lift.stop_Z)  Shared  Lift.java:9:8
@    AWr(1,@03[1])  Final  Lift.java:10:1
@   Exit(1,elevator/Lift.run()V)
@   Release(1,@0F)
@   Rd(1,@02.harness/Callback.startTime_J)  Final  Lift.java:11:2
@ Notify(1,@0F)
@   Join(0,1)
@  Exit(0,elevator/Elevator.main([Ljava/lang/String;)V)
## done
";

#[test]
fn every_operation() {
    let whole = read(LOG);
    assert!(whole.error.is_none(), "{}", whole.message());
    assert_eq!(whole.format, Some(Format::Rr));
    let main = "in elevator/Elevator.main([Ljava/lang/String;)V";
    let run = "in elevator/Lift.run()V";
    assert_eq!(
        whole.lines(),
        [
            "0 write(@02.harness/Callback.startTime_J) Callback.java:5:6".to_owned(),
            "0 enter(elevator/Elevator.main([Ljava/lang/String;)V) ?".to_owned(),
            format!("0 read(@03[0]) Elevator.java:140:123 {main}"),
            format!("0 fork(1) :0:0 {main}"),
            "1 acquire(@0F) ?".to_owned(),
            "1 enter(elevator/Lift.run()V) ?".to_owned(),
            format!("1 store(null.elevator/Lift.stop_Z) Lift.java:7:8 {run}"),
            format!("1 load(null.elevator/Lift.stop_Z) Lift.java:9:8 {run}"),
            format!("1 write(@03[1]) Lift.java:10:1 {run}"),
            format!("1 exit(elevator/Lift.run()V) :0:0 {run}"),
            "1 release(@0F) ?".to_owned(),
            "1 read(@02.harness/Callback.startTime_J) Lift.java:11:2".to_owned(),
            format!("0 join(1) :0:0 {main}"),
            format!("0 exit(elevator/Elevator.main([Ljava/lang/String;)V) :0:0 {main}"),
        ]
    );
    let volatile: Vec<_> = whole.names.vars().iter().map(|v| v.volatile).collect();
    assert_eq!(volatile, [false, false, true, false]);
    assert_eq!(whole.names.vars()[1].object, whole.names.vars()[3].object);
    assert_eq!(whole.names.vars()[2].object, None);
}

#[test]
fn other_lines_are_passed_over_and_broken_events_are_not() {
    for (line, message) in [
        (
            "@  Rd(0)",
            "t:2: expected `@ Op(tid,target)`, found `@  Rd(0)`",
        ),
        ("@  Rd 0,x", "t:2: expected `@ Op(tid,target)`"),
        (
            "@  Enter(0,) from null",
            "t:2: expected a function's name, found nothing",
        ),
        ("@  Acquire(,@0F)", "t:2: expected a name that is not empty"),
    ] {
        let text = format!("@ Rd(0,x)\n{line}\n@ Wr(0,x)\n");
        let whole = read(&text);
        assert!(whole.message().starts_with(message), "{}", whole.message());
        let whole = lenient(&text, Format::Rr);
        assert_eq!(whole.events.len(), 2);
        assert_eq!(whole.summary.skipped, 1);
    }
    let whole = read("@ Rd(0,x)\n@Rd(0,x)\n@ Red(0,x)\n Rd(0,x)\n@\n@ \n@ Rdx\n");
    assert!(whole.error.is_none(), "{}", whole.message());
    assert_eq!(whole.events.len(), 1);
}

#[test]
fn an_exception_leaves_every_function_above() {
    let whole = read("@ Enter(0,f)\n@ Enter(0,g)\n@ Exit(0,f)\n@ Rd(0,x)  F  A.java:1:2\n");
    assert_eq!(whole.lines()[3], "0 read(x) A.java:1:2");
    assert!(matches!(whole.events[2].op, Op::Exit(_)));
}

#[test]
fn a_place_that_is_not_one_is_kept_as_it_is() {
    let whole = read("@ Rd(0,x)  Final  <unknown>\n@ Rd(0,x)  Final  A.java:x:1\n");
    assert_eq!(
        whole.lines(),
        ["0 read(x) <unknown>:0:0", "0 read(x) A.java:x:1:0:0"]
    );
}
