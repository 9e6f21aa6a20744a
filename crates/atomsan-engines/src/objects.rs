//! The life of objects, for engines that keep something for each variable.
//!
//! Memory that is reused is new: when an object is freed, or comes to life again under the same
//! id, what an engine knows about the variables in it is about other variables. An engine enters
//! each variable once, at its first access, and gets them back when their object's life is over,
//! so that the cost is one step for each variable and life, and nothing for each access.

use atomsan_trace::{Names, ObjectId, ThreadId, VarId};

#[derive(Debug, Default)]
struct Object {
    creator: Option<ThreadId>,
    vars: Vec<VarId>,
}

/// Which variables are known of each object, and who made it.
#[derive(Debug, Default)]
pub struct Objects {
    objects: Vec<Object>,
}

impl Objects {
    /// Enters a variable that is used for the first time in its life. Returns the thread that
    /// made the object it is in, if that was seen.
    pub fn enter(&mut self, var: VarId, names: &Names) -> Option<ThreadId> {
        let object = names.var(var)?.object?;
        let object = self.get(object);
        object.vars.push(var);
        object.creator
    }

    /// A thread makes an object; `forget` gets the variables of the life before.
    pub fn alloc(&mut self, object: ObjectId, by: ThreadId, forget: impl FnMut(VarId)) {
        self.free(object, forget);
        self.get(object).creator = Some(by);
    }

    /// An object dies; `forget` gets its variables.
    pub fn free(&mut self, object: ObjectId, forget: impl FnMut(VarId)) {
        if let Some(object) = self.objects.get_mut(object.index()) {
            object.creator = None;
            object.vars.drain(..).for_each(forget);
        }
    }

    fn get(&mut self, object: ObjectId) -> &mut Object {
        if self.objects.len() <= object.index() {
            self.objects
                .resize_with(object.index() + 1, Object::default);
        }
        &mut self.objects[object.index()]
    }
}
